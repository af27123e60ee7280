//! Which pieces are one service: the label of a server may change while the relays on it stay.
//!
//! See docs/import.md, "Services", for the rule.

use std::collections::HashMap;

use heaptrial_store::ImportedSample;

use super::piece::Piece;

/// A label that came back was away for more than this many usual distances between readings.
const AWAY: f64 = 1.5;
/// A label that ended is missed once half of the usual distance between its readings has passed.
const MISSED: f64 = 0.5;
/// The distance where a piece has a single reading: scripts of operators run once an hour or less often.
const USUAL_US: f64 = 3_600e6;
/// Readings under two labels that change seldom, by this many readings on average, look like one label that changed.
const READINGS_PER_RUN: usize = 3;

/// How it is known that two pieces are of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum By {
    /// The labels are two spellings of one name, or one of them is empty.
    Spelling,
    /// The fingerprint is the same.
    Fingerprint,
    /// Nickname and list are the same, and where one label ends, the other begins.
    List,
}

/// Why pieces that look like one service are not taken as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Apart {
    /// Both labels were read at the same time, or in turn.
    Overlap,
    /// The group changed together with the label, and no fingerprint tells.
    Group,
    /// There are several that it could be.
    Ambiguous,
}

/// How pieces may be joined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub keep_apart: bool,
    /// Lists are the groups that the rows name.
    pub by_group: bool,
}

/// Pieces that are not joined though they look like it, by position.
pub(super) type KeptApart = (Vec<usize>, Apart);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Same(By),
    /// With a reason where it looks as if they were the same.
    Other(Option<Apart>),
}

/// The pieces of each service, by position, in order of their first piece.
pub(super) fn services(pieces: &[Piece], rule: Rule) -> (Vec<Vec<usize>>, Vec<KeptApart>) {
    let mut of_nickname: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, piece) in pieces.iter().enumerate() {
        of_nickname.entry(&piece.nickname).or_default().push(index);
    }
    let mut services = Vec::new();
    let mut apart = Vec::new();
    for indices in of_nickname.into_values() {
        if indices.len() == 1 || rule.keep_apart {
            services.extend(indices.into_iter().map(|index| vec![index]));
        } else {
            services.extend(joined(pieces, &indices, rule.by_group, &mut apart));
        }
    }
    if !rule.keep_apart {
        services = renamed(pieces, services);
    }
    services.sort_unstable_by_key(|members| members[0]);
    apart.sort();
    (services, apart)
}

/// Services of one fingerprint are one relay that was renamed, as long as their readings are not beside each other.
fn renamed(pieces: &[Piece], services: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut joined: Vec<Vec<usize>> = Vec::new();
    let mut of_fingerprint: HashMap<&str, Vec<Vec<usize>>> = HashMap::new();
    for members in services {
        match members.iter().map(|index| pieces[*index].fingerprint.as_str()).find(|text| !text.is_empty()) {
            Some(fingerprint) => of_fingerprint.entry(fingerprint).or_default().push(members),
            None => joined.push(members),
        }
    }
    for same in of_fingerprint.into_values() {
        let apart = |a: &usize, b: &usize| {
            let runs = Runs::of(&pieces[*a], &pieces[*b]);
            runs.differs || !(runs.at_once || runs.take_turns())
        };
        let pairs = same.iter().enumerate().flat_map(|(place, a)| same[..place].iter().map(move |b| (a, b)));
        let mut pairs = pairs.flat_map(|(a, b)| a.iter().flat_map(move |a| b.iter().map(move |b| (a, b))));
        if pairs.any(|(a, b)| apart(a, b)) {
            joined.extend(same);
        } else {
            let mut members = same.concat();
            members.sort_unstable();
            joined.push(members);
        }
    }
    joined
}

fn joined(
    pieces: &[Piece],
    indices: &[usize],
    by_group: bool,
    apart: &mut Vec<KeptApart>,
) -> Vec<Vec<usize>> {
    let count = indices.len();
    let relation: Vec<Vec<Relation>> = indices
        .iter()
        .map(|a| indices.iter().map(|b| relation(&pieces[*a], &pieces[*b], by_group)).collect())
        .collect();
    let told = |members: &[usize], why: Apart| (members.iter().map(|at| indices[*at]).collect(), why);
    for (a, of_a) in relation.iter().enumerate() {
        for (b, found) in of_a.iter().enumerate().skip(a + 1) {
            if let Relation::Other(Some(why)) = *found {
                apart.push(told(&[a, b], why));
            }
        }
    }
    // What a list alone tells must not stand against what is known better.
    let mut clusters: Vec<Vec<usize>> = (0..count).map(|at| vec![at]).collect();
    for surely in [true, false] {
        let taken = |by: By| !surely || by != By::List;
        let mut next: Vec<Vec<usize>> = Vec::new();
        for component in components(&clusters, &relation, taken) {
            let members: Vec<usize> = component.iter().flat_map(|at| clusters[*at].iter().copied()).collect();
            let agree =
                |a: &usize| members.iter().all(|b| a == b || matches!(relation[*a][*b], Relation::Same(_)));
            if members.iter().all(agree) {
                next.push(members);
            } else {
                apart.push(told(&members, Apart::Ambiguous));
                next.extend(component.iter().map(|at| clusters[*at].clone()));
            }
        }
        clusters = next;
    }
    let sorted = |mut members: Vec<usize>| {
        members.sort_unstable();
        members.into_iter().map(|at| indices[at]).collect()
    };
    clusters.into_iter().map(sorted).collect()
}

/// Clusters that hang together by relations that are taken.
fn components(
    clusters: &[Vec<usize>],
    relation: &[Vec<Relation>],
    taken: impl Fn(By) -> bool,
) -> Vec<Vec<usize>> {
    let linked = |a: &[usize], b: &[usize]| {
        let same = |a: usize, b: usize| matches!(relation[a][b], Relation::Same(by) if taken(by));
        a.iter().any(|a| b.iter().any(|b| same(*a, *b)))
    };
    let mut left: Vec<usize> = (0..clusters.len()).collect();
    let mut components = Vec::new();
    while let Some(first) = left.first().copied() {
        let mut component = vec![first];
        left.remove(0);
        let mut reached = 0;
        while reached < component.len() {
            let from = component[reached];
            let (near, far) = left.iter().partition(|at| linked(&clusters[from], &clusters[**at]));
            component.extend::<Vec<usize>>(near);
            left = far;
            reached += 1;
        }
        components.push(component);
    }
    components
}

fn relation(a: &Piece, b: &Piece, by_group: bool) -> Relation {
    let known = !a.fingerprint.is_empty() && !b.fingerprint.is_empty();
    let others = known && a.fingerprint != b.fingerprint;
    if others || a.server == b.server || a.samples.is_empty() || b.samples.is_empty() {
        return Relation::Other(None);
    }
    let runs = Runs::of(a, b);
    let looks_like_one = READINGS_PER_RUN * runs.runs.len() <= a.samples.len() + b.samples.len();
    let overlap = Relation::Other(looks_like_one.then_some(Apart::Overlap));
    if is_same_server(&a.server, &b.server) {
        return if runs.differs { overlap } else { Relation::Same(By::Spelling) };
    }
    if runs.at_once || !runs.take_turns() {
        return overlap;
    }
    if known {
        return Relation::Same(By::Fingerprint);
    }
    match runs.is_missed() {
        false => Relation::Other(None),
        true if by_group && !runs.group_stays(a, b) => Relation::Other(Some(Apart::Group)),
        true => Relation::Same(By::List),
    }
}

/// Whether two labels are of one server: they differ in case or by the domain, or one is empty.
pub(crate) fn is_same_server(a: &str, b: &str) -> bool {
    let plain = |label: &str| label.trim_end_matches('.').to_ascii_lowercase();
    let (a, b) = (plain(a), plain(b));
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    // The parts of an address are no names.
    let is_name = short.contains(|c: char| c.is_ascii_alphabetic());
    let domain = long.strip_prefix(short.as_str());
    short.is_empty() || short == long || (is_name && domain.is_some_and(|domain| domain.starts_with('.')))
}

/// Whether two readings of one time are not of one process. What one of them does not tell, says nothing.
fn contradict(a: &ImportedSample, b: &ImportedSample) -> bool {
    let differ = |a: Option<u64>, b: Option<u64>| a.zip(b).is_some_and(|(a, b)| a != b);
    let same_time = a.wall_us == b.wall_us;
    same_time
        && (a.rss_bytes != b.rss_bytes
            || differ(a.vsize_bytes, b.vsize_bytes)
            || differ(a.hwm_bytes, b.hwm_bytes))
}

/// Readings of one label without one of the other in between.
#[derive(Debug, Clone, Copy)]
struct Run {
    of_a: bool,
    first_us: i64,
    last_us: i64,
}

/// The readings of two pieces in order of time.
struct Runs {
    runs: Vec<Run>,
    /// Whether both have a reading at one time.
    at_once: bool,
    differs: bool,
    /// The usual distance between readings under one label, in microseconds.
    usual_us: Option<f64>,
}

impl Runs {
    fn of(a: &Piece, b: &Piece) -> Self {
        let tagged = |piece: &Piece, of_a: bool| -> Vec<_> {
            piece.samples.iter().map(|sample| (sample.wall_us, !of_a, *sample)).collect()
        };
        let mut readings = tagged(a, true);
        readings.extend(tagged(b, false));
        readings.sort_unstable_by_key(|(wall_us, not_a, _)| (*wall_us, *not_a));
        let at_once = readings.windows(2).any(|pair| pair[0].0 == pair[1].0);
        let differs = readings.windows(2).any(|pair| contradict(&pair[0].2, &pair[1].2));
        let mut runs: Vec<Run> = Vec::new();
        let mut distances = Vec::new();
        for (wall_us, not_a, _) in readings {
            match runs.last_mut() {
                Some(run) if run.of_a != not_a => {
                    distances.push((wall_us - run.last_us) as f64);
                    run.last_us = wall_us;
                }
                _ => runs.push(Run { of_a: !not_a, first_us: wall_us, last_us: wall_us }),
            }
        }
        distances.sort_unstable_by(f64::total_cmp);
        Self { runs, at_once, differs, usual_us: distances.get(distances.len() / 2).copied() }
    }

    /// Whether a label was away for long while the other one was there. Two servers that are read in turn are not.
    fn take_turns(&self) -> bool {
        if self.runs.len() <= 2 {
            return true;
        }
        let Some(usual_us) = self.usual_us else { return false };
        self.runs.windows(3).all(|runs| (runs[2].first_us - runs[0].last_us) as f64 > AWAY * usual_us)
    }

    /// Whether the label that ended should have been read again before the data end. Else both may go on: one server
    /// is read seconds after the other.
    fn is_missed(&self) -> bool {
        let [.., ended, last] = self.runs[..] else { return false };
        let usual_us = self.usual_us.unwrap_or(USUAL_US);
        (last.last_us - ended.last_us) as f64 >= MISSED * usual_us
    }

    /// Whether the group is the same before and after the first change of the label, as far as the rows tell.
    fn group_stays(&self, a: &Piece, b: &Piece) -> bool {
        let [first, ..] = self.runs[..] else { return true };
        let (before, after) = if first.of_a { (a, b) } else { (b, a) };
        let told = |group: &&(i64, String)| !group.1.is_empty();
        let last = before.groups.iter().rfind(|group| told(group) && group.0 <= first.last_us);
        let next = after.groups.iter().find(told);
        last.zip(next).is_none_or(|(last, next)| last.1 == next.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn piece(server: &str, fingerprint: &str, hours: &[i64]) -> Piece {
        let sample = |hour: &i64| ImportedSample {
            wall_us: hour * HOUR,
            rss_bytes: 1,
            vsize_bytes: None,
            hwm_bytes: None,
            ..ImportedSample::default()
        };
        Piece {
            nickname: "one".into(),
            server: server.into(),
            fingerprint: fingerprint.into(),
            samples: hours.iter().map(sample).collect(),
            ..Piece::default()
        }
    }

    fn joined(pieces: &[Piece]) -> (Vec<Vec<usize>>, Vec<Apart>) {
        let (services, apart) = services(pieces, Rule { keep_apart: false, by_group: true });
        (services, apart.into_iter().map(|(_, why)| why).collect())
    }

    #[test]
    fn labels_of_one_server() {
        for (a, b, same) in [
            ("go", "Go", true),
            ("go", "go.example.org", true),
            ("go.example.org.", "GO.example.org", true),
            ("go", "", true),
            ("go", "gopher", false),
            ("go.example.org", "go.example.net", false),
            ("10", "10.0.0.1", false),
        ] {
            assert_eq!((is_same_server(a, b), is_same_server(b, a)), (same, same), "{a} {b}");
        }
    }

    #[test]
    fn a_label_that_ends_where_another_begins_is_one_service() {
        let one = (vec![vec![0, 1]], vec![]);
        assert_eq!(joined(&[piece("a", "", &[0, 24, 48]), piece("b", "", &[72, 96])]), one);
        assert_eq!(joined(&[piece("b", "", &[72, 96]), piece("a", "", &[0, 24, 48])]), one);
        assert_eq!(joined(&[piece("a", "", &[0, 24]), piece("b", "", &[2400])]), one, "after a gap");
        assert_eq!(joined(&[piece("a", "F", &[0, 24]), piece("b", "F", &[48])]), one);
        assert_eq!(joined(&[piece("a", "", &[0, 24]), piece("b", "F", &[48])]), one);
        let three = [piece("a", "", &[0, 24]), piece("b", "", &[48, 72]), piece("c", "", &[96, 120])];
        assert_eq!(joined(&three), (vec![vec![0, 1, 2]], vec![]));
        let back = [piece("a", "", &[0, 24, 48, 144, 168]), piece("b", "", &[72, 96, 120])];
        assert_eq!(joined(&back), one);
    }

    #[test]
    fn two_servers_at_the_same_time_are_two_services() {
        let two = || vec![vec![0], vec![1]];
        let daily: Vec<i64> = (0..10).map(|day| day * 24).collect();
        let noon: Vec<i64> = (0..10).map(|day| day * 24 + 12).collect();
        assert_eq!(joined(&[piece("a", "", &daily), piece("b", "", &daily)]), (two(), vec![]));
        assert_eq!(joined(&[piece("a", "", &daily), piece("b", "", &noon)]), (two(), vec![]));
        assert_eq!(joined(&[piece("a", "F", &daily), piece("b", "F", &noon)]), (two(), vec![]));
        // The other fingerprint decides, whatever the times.
        assert_eq!(joined(&[piece("a", "F", &[0, 24]), piece("b", "G", &[48, 72])]), (two(), vec![]));
        // The second server was read once, a second after the last reading of the first.
        let mut late = piece("b", "", &[216]);
        late.samples[0].wall_us += 1_000_000;
        assert_eq!(joined(&[piece("a", "", &daily), late]), (two(), vec![]));
    }

    #[test]
    fn a_fingerprint_tells_a_relay_that_was_renamed() {
        let named = |nickname: &str, fingerprint: &str, hours: &[i64]| Piece {
            nickname: nickname.into(),
            ..piece("a", fingerprint, hours)
        };
        let two = (vec![vec![0], vec![1]], vec![]);
        let (before, after) = ([0, 24, 48], [72, 96]);
        let of = |second: Piece| joined(&[named("one", "F", &before), second]);
        assert_eq!(of(named("uno", "F", &after)), (vec![vec![0, 1]], vec![]));
        assert_eq!(of(named("uno", "G", &after)), two);
        assert_eq!(of(named("uno", "", &after)), two);
        assert_eq!(of(named("uno", "F", &[12, 36, 60])), two, "in turn");
        // What is stored under the new name has the readings under the old one as well.
        assert_eq!(of(named("uno", "F", &[0, 24, 48, 72, 96])), (vec![vec![0, 1]], vec![]));
        let mut other = named("uno", "F", &[48, 72]);
        other.samples[0].rss_bytes = 2;
        assert_eq!(of(other), two, "two relays with one key");
    }

    #[test]
    fn an_overlap_by_one_reading_is_two_services_and_told() {
        let overlapping = [piece("a", "", &[0, 24, 48, 72]), piece("b", "", &[72, 96, 120, 144])];
        assert_eq!(joined(&overlapping), (vec![vec![0], vec![1]], vec![Apart::Overlap]));
    }

    #[test]
    fn what_could_be_either_is_none() {
        let after = [piece("a", "", &[0, 24]), piece("b", "F", &[48, 72]), piece("c", "G", &[48, 72])];
        assert_eq!(joined(&after), (vec![vec![0], vec![1], vec![2]], vec![Apart::Ambiguous]));
        // A fingerprint tells which one it is.
        let told = [piece("a", "F", &[0, 24]), piece("b", "F", &[48, 72]), piece("c", "G", &[48, 72])];
        assert_eq!(joined(&told), (vec![vec![0, 1], vec![2]], vec![]));
    }

    #[test]
    fn another_group_together_with_another_label_is_another_service() {
        let mut pieces = [piece("a", "", &[0, 24]), piece("b", "", &[48, 72])];
        pieces[0].groups = vec![(0, "A".into())];
        pieces[1].groups = vec![(48 * HOUR, "B".into())];
        assert_eq!(joined(&pieces), (vec![vec![0], vec![1]], vec![Apart::Group]));
        pieces[1].groups[0].1 = "A".into();
        assert_eq!(joined(&pieces), (vec![vec![0, 1]], vec![]));
    }

    #[test]
    fn labels_are_kept_apart_where_it_is_asked_for() {
        let rule = Rule { keep_apart: true, by_group: false };
        let pieces = [piece("go", "F", &[0, 24]), piece("Go", "F", &[48])];
        assert_eq!(services(&pieces, rule).0, [vec![0], vec![1]]);
    }
}
