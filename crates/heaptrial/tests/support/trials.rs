//! Trials of glibc and jemalloc on the services of a host.

use super::bed::Bed;

/// What a watch looks after: six services at a time are restarted.
pub const TWO_WAY: &str = "name = \"two-way\"\nservices = \"churn@*\"\nduration = \"2d\"\nlooks = [\"1d\", \"2d\"]\n\
     metric = \"rss\"\n[pace]\nat_once = 6\npause = \"0s\"\nsettle = \"0s\"\n\
     [[arm]]\nname = \"glibc\"\ncontrol = true\nallocator = \"glibc\"\n\
     [[arm]]\nname = \"jemalloc\"\nallocator = \"jemalloc@5.3.0\"\n";

/// A trial of two days. Lines of `pace` beside those that it is not told otherwise: nothing is waited for.
pub fn two_arms(name: &str, services: &str, pace: &str) -> String {
    let at_once = ["pause", "settle"].into_iter().filter(|key| !pace.contains(key));
    let at_once: String = at_once.map(|key| format!("{key} = \"0s\"\n")).collect();
    format!(
        "name = \"{name}\"\nservices = '{services}'\nduration = \"2d\"\n[pace]\n{at_once}{pace}\n\
         [[arm]]\nname = \"glibc\"\ncontrol = true\nallocator = \"glibc\"\n\
         [[arm]]\nname = \"jemalloc\"\nallocator = \"jemalloc@5.3.0\"\n"
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
