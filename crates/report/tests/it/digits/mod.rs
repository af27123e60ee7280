//! Figures as far as they are the same on every machine.

use regex::{Captures, Regex};

/// A report's JSON, its figures rounded to nine digits: a C library's `exp` and `log` may differ from another's in the last one,
/// and what is found by bisection or is a difference of large figures differs in more.
pub fn nine_digits(json: &str) -> String {
    let figure = Regex::new(r#"(?m)(^ *|": )(-?[0-9]+\.[0-9]+(?:e[+-]?[0-9]+)?)(,?)$"#).unwrap();
    let rounded = |found: &Captures| {
        let figure: f64 = found[2].parse().unwrap();
        let figure: f64 = format!("{figure:.8e}").parse().unwrap();
        format!("{}{figure:?}{}", &found[1], &found[3])
    };
    figure.replace_all(json, rounded).into_owned()
}
