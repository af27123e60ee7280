// Keeps a page up to date: listens for changes, fetches the page again and changes what differs in place, so that
// focus, scrolling, selection and open folds stay.
"use strict";

(() => {
  const state = document.getElementById("state");
  const reload = document.getElementById("reload");
  const bar = document.getElementById("live");
  const main = document.getElementById("main");
  const LATEST_AFTER = 60_000; // Times such as "3 min ago" grow old without any change of the data.
  const APART = 1_000;
  let source = null;
  let fetching = false;
  let wanted = false;
  let fetchedAt = Date.now();
  let timer = 0;

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
    if (fetching) {
      wanted = true;
      return;
    }
    // A reader who copies something is not disturbed.
    if (selecting()) {
      later(5_000);
      return;
    }
    fetching = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      take(await answer.text());
    } catch {
      show("Not connected, as of", "lost");
    }
    fetching = false;
    if (wanted) {
      wanted = false;
      later(APART);
    }
  };

  const later = (after) => {
    clearTimeout(timer);
    timer = setTimeout(update, after);
  };

  const listen = () => {
    if (source || document.hidden) return;
    source = new EventSource("/events");
    source.addEventListener("version", (event) => {
      show("Live, as of", "live");
      if (event.data !== document.body.dataset.version) later(Math.max(0, APART - (Date.now() - fetchedAt)));
    });
    source.addEventListener("error", () => {
      show("Not connected, as of", "lost");
      // Refused, as where too many listen: the browser does not ask again by itself.
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(listen, 30_000);
      }
    });
  };

  // A browser has few connections to a server: a page that nobody sees needs none.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      if (source) source.close();
      source = null;
    } else {
      listen();
    }
  });
  window.addEventListener("pagehide", () => source && source.close());
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) {
      source = null;
      listen();
    }
  });
  setInterval(() => {
    if (!document.hidden && Date.now() - fetchedAt >= LATEST_AFTER) update();
  }, 5_000);
  listen();
})();
