//! The build with heap security in place of the plain one: as measured, or not at all.

use heaptrial_allocator::Catalog;
use heaptrial_model::{AllocatorSpec, Arm};

/// The variant that turns an allocator's mitigations on.
const SECURE: &str = "secure";

/// The arm of a trial with the secure build of what `arm` runs and all else the same, or what to do instead.
pub fn arm_of<'a>(trial: &str, arms: &'a [Arm], arm: &'a Arm) -> Result<&'a Arm, String> {
    let Some(spec) = &arm.treatment.allocator else {
        return Err(format!("arm `{}` names no allocator, and so no secure build of it", arm.name));
    };
    if is_secure(spec) {
        return Ok(arm);
    }
    let wanted = spec_of(spec)?;
    let same = |other: &&Arm| {
        other.treatment.allocator.as_ref().is_some_and(|other| *other == wanted)
            && other.treatment.torrc == arm.treatment.torrc
            && other.treatment.restart_every == arm.treatment.restart_every
    };
    arms.iter().find(same).ok_or_else(|| {
        format!(
            "trial `{trial}` did not measure the secure build of {spec}, which may need several times the memory of the plain one. Run a trial with an arm\n  [[arm]]\n  name = \"{}-secure\"\n  allocator = \"{wanted}\"\nand roll that arm out; or leave out --secure, which rolls out the plain build",
            arm.name
        )
    })
}

/// The secure build of an allocator, or why there is none.
pub fn spec_of(spec: &AllocatorSpec) -> Result<AllocatorSpec, String> {
    if is_secure(spec) {
        return Ok(spec.clone());
    }
    let has = Catalog::builtin().family(&spec.family).is_some_and(|family| family.variant(SECURE).is_some());
    if !has {
        return Err(format!(
            "the catalog knows no secure build of {}; leave out --secure, and see `heaptrial rollout start --mitigations` for what each arm does against heap corruption",
            spec.family
        ));
    }
    let mut secure = spec.clone();
    secure.variants.push(SECURE.to_owned());
    Ok(secure)
}

fn is_secure(spec: &AllocatorSpec) -> bool {
    spec.variants.iter().any(|variant| variant == SECURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arms(specs: &[&str]) -> Vec<Arm> {
        specs.iter().map(|spec| Arm::from_spec(spec.parse().unwrap(), false)).collect()
    }

    #[test]
    fn the_secure_build_that_the_trial_measured_takes_the_plain_one_s_place() {
        let arms = arms(&[
            "glibc",
            "mimalloc@2.0.9",
            "mimalloc@2.1.7+secure",
            "mimalloc@2.0.9+secure?purge_delay=0",
            "mimalloc@2.0.9+secure",
        ]);
        let found = |place: usize| arm_of("five-way", &arms, &arms[place]).map(|arm| arm.name.as_str());
        assert_eq!(found(1), Ok("mimalloc@2.0.9+secure"));
        assert_eq!(found(4), Ok("mimalloc@2.0.9+secure"));
        assert_eq!(found(2), Ok("mimalloc@2.1.7+secure"));
        let why = found(0).unwrap_err();
        assert!(why.contains("no secure build of glibc"), "{why}");
    }

    #[test]
    fn a_secure_build_that_differs_in_anything_else_is_refused_with_what_to_do() {
        let mut arms = arms(&["mimalloc@2.0.9", "mimalloc@2.0.9+secure"]);
        arms[1].treatment.torrc.insert("DirCache".into(), "0".into());
        let why = arm_of("five-way", &arms, &arms[0]).unwrap_err();
        assert!(why.contains("trial `five-way` did not measure the secure build"), "{why}");
        assert!(why.contains("allocator = \"mimalloc@2.0.9+secure\""), "{why}");
    }
}
