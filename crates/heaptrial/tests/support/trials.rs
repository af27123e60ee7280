//! Trials of glibc and jemalloc on the services of a host.

use super::bed::Bed;

/// A trial of two days of glibc and jemalloc. Lines of `pace` beside those that it is not told otherwise: nothing is waited for.
pub fn two_arms(name: &str, services: &str, pace: &str) -> String {
    two_arms_of(name, services, pace, [("glibc", "glibc"), ("jemalloc", "jemalloc@5.3.0")])
}

/// The same of two arms, given with their allocators; the first is the control.
pub fn two_arms_of(name: &str, services: &str, pace: &str, arms: [(&str, &str); 2]) -> String {
    let at_once = ["pause", "settle"].into_iter().filter(|key| !pace.contains(key));
    let at_once: String = at_once.map(|key| format!("{key} = \"0s\"\n")).collect();
    let [(control, first), (other, second)] = arms;
    format!(
        "name = \"{name}\"\nservices = '{services}'\nduration = \"2d\"\n[pace]\n{at_once}{pace}\n\
         [[arm]]\nname = \"{control}\"\ncontrol = true\nallocator = \"{first}\"\n\
         [[arm]]\nname = \"{other}\"\nallocator = \"{second}\"\n"
    )
}

/// Writes a trial of all churn services and plans it.
pub fn plan(bed: &Bed, name: &str, pace: &str) {
    bed.write_trial(name, &two_arms(name, "churn@*", pace));
    bed.succeeds(&format!("trial plan {name}.toml --seed 1"));
}

/// A host with so many churn services and a trial of them that is planned.
pub fn planned(name: &str, count: usize, pace: &str) -> Option<(Bed, Vec<String>)> {
    let (bed, units) = Bed::with_churn(count)?;
    plan(&bed, name, pace);
    Some((bed, units))
}

/// The services that a plan gives an arm.
pub fn of_arm(bed: &Bed, plan: &str, arm: &str) -> Vec<String> {
    let text = bed.container.read_text(format!("/root/{plan}.plan.toml")).unwrap();
    let plan: toml::Value = toml::from_str(&text).unwrap();
    let services = plan["services"].as_array().unwrap().iter();
    let own = services.filter(|service| service["arm"].as_str() == Some(arm));
    own.map(|service| service["service"].as_str().unwrap().to_owned()).collect()
}
