// Keeps a page up to date: asks for the version of the data, fetches the page again when it is another and changes what differs in place, so that
// focus, scrolling, selection and open folds stay.
"use strict";

(() => {
  const state = document.getElementById("state");
  const reload = document.getElementById("reload");
  const bar = document.getElementById("live");
  const main = document.getElementById("main");
  const LATEST_AFTER = 30_000; // Times such as "3 min ago" grow old without any change of the data.
  const EVERY = 4_000;
  let fetchedAt = Date.now();

  const show = (word, kind) => {
    if (state.textContent !== word) state.textContent = word;
    bar.dataset.kind = kind;
    reload.hidden = kind === "live";
  };

  const key = (node) => (node.nodeType === 1 ? node.id || node.dataset.key || "" : "");
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && key(a) === key(b);

  // Makes `old` like `fresh`, using the nodes that are there wherever they are alike.
  const change = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== 1) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(old.nodeName === "DETAILS" && name === "open")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if ("whole" in fresh.dataset) {
      old.replaceChildren(...fresh.childNodes);
      return;
    }
    const keyed = new Map();
    for (const child of old.childNodes) if (key(child)) keyed.set(key(child), child);
    let place = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const same = key(child) ? keyed.get(key(child)) : place;
      if (same && alike(same, child)) {
        if (same === place) place = place.nextSibling;
        else old.insertBefore(same, place);
        change(same, child);
      } else {
        old.insertBefore(child, place);
      }
    }
    while (place) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
  };

  const selecting = () => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && main.contains(selection.anchorNode);
  };

  const take = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const content = fresh.getElementById("main");
    if (!content) return;
    const focused = document.activeElement;
    change(main, content);
    if (focused && focused !== document.activeElement && document.contains(focused)) {
      focused.focus({ preventScroll: true });
    }
    document.title = fresh.title;
    document.body.dataset.version = fresh.body.dataset.version;
    document.getElementById("as-of").replaceWith(fresh.getElementById("as-of"));
    fetchedAt = Date.now();
    main.dispatchEvent(new CustomEvent("heaptrial:updated", { bubbles: true }));
  };

  const update = async () => {
    // A reader who copies something is not disturbed.
    if (selecting()) return;
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    take(await answer.text());
  };

  let asking = false;
  const ask = async () => {
    if (document.hidden || asking) return;
    asking = true;
    try {
      const version = await (await fetch("/version", { cache: "no-store" })).text();
      show("Live, as of", "live");
      const old = Date.now() - fetchedAt >= LATEST_AFTER;
      if (old || version !== document.body.dataset.version) await update();
    } catch {
      show("Not connected, as of", "lost");
    }
    asking = false;
  };

  document.addEventListener("visibilitychange", ask);
  setInterval(ask, EVERY);
  ask();
})();
