//! What distinguishes one drawing of a plan from any other.

use crate::word::text_type;

text_type! {
    /// The start of the SHA-256 of all that was drawn: 16 hexadecimal digits, safe in a unit's file.
    pub struct PlanId, valid by is_id, else
        "`{0}` is no id of a drawing; expected 16 hexadecimal digits, as a plan has when it is drawn"
}

fn is_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

impl PlanId {
    /// Of what has this SHA-256.
    pub fn of(digest: [u8; 32]) -> Self {
        Self(hex::encode(&digest[..8]))
    }
}

/// Of a plan that is not drawn to its end yet: zeros.
impl Default for PlanId {
    fn default() -> Self {
        Self::of([0; 32])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_sixteen_digits() {
        let mut digest = [9; 32];
        digest[..8].copy_from_slice(&[0, 1, 0xab, 3, 4, 5, 6, 0xff]);
        let id = PlanId::of(digest);
        assert_eq!((id.as_str(), id.as_str().parse()), ("0001ab03040506ff", Ok(id.clone())));
        assert!(PlanId::default().as_str().parse::<PlanId>().is_ok());
        for bad in ["", "0001ab03040506f", "0001ab03040506ff0", "0001AB03040506FF", "0001ab03040506f\n"] {
            assert!(bad.parse::<PlanId>().is_err(), "{bad}");
        }
    }
}
