//! What a frame says, field by field: for those who look at frames, not for those who act on them.

/// What one field says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number, in the unit that its name ends with, if it has one.
    Number(u64),
    /// A word, a name, a digest in hexadecimal digits.
    Text(String),
}

/// Names and values of a body's fields, in their order on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    list: Vec<(&'static str, FieldValue)>,
}

/// What a frame carries, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelled {
    /// Its kind, as `docs/protocol/README.md` calls it.
    pub kind: &'static str,
    /// What its body says; `None` if that is malformed.
    pub fields: Option<Fields>,
}

impl Fields {
    /// With one more number.
    pub fn number(mut self, name: &'static str, value: impl Into<u64>) -> Fields {
        self.list.push((name, FieldValue::Number(value.into())));
        self
    }

    /// With one more number, if there is one.
    pub fn perhaps(self, name: &'static str, value: Option<impl Into<u64>>) -> Fields {
        match value {
            Some(value) => self.number(name, value),
            None => self,
        }
    }

    /// With one more text.
    pub fn text(mut self, name: &'static str, value: impl ToString) -> Fields {
        self.list.push((name, FieldValue::Text(value.to_string())));
        self
    }

    /// With one more text of bytes: two hexadecimal digits for each.
    pub fn hex(self, name: &'static str, bytes: &[u8]) -> Fields {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.text(name, digits)
    }

    /// With all of `other` behind these.
    pub fn and(mut self, other: Fields) -> Fields {
        self.list.extend(other.list);
        self
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, FieldValue)> {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_in_the_order_in_which_they_were_named() {
        let behind = Fields::default().hex("digest", &[0, 0xAB]);
        let nothing: Option<u64> = None;
        let fields = Fields::default().number("frames", 7_u64).perhaps("absent", nothing).perhaps("rank", Some(3_u16));
        let fields = fields.text("name", "blue").and(behind);
        let text = |text: &str| FieldValue::Text(text.into());
        let told = [
            ("frames", FieldValue::Number(7)),
            ("rank", FieldValue::Number(3)),
            ("name", text("blue")),
            ("digest", text("00ab")),
        ];
        assert!(fields.iter().eq(&told), "{fields:?}");
    }
}
