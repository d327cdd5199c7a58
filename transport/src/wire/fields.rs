//! Fields of a decoded frame as names and values, for diagnostic tools.

/// Value of a field: a number, in the unit at the end of the field's name, if there is one; or a
/// name, or a digest in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    Number(u64),
    Text(String),
}

/// Names and values of a body's fields, in wire order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    list: Vec<(&'static str, FieldValue)>,
}

/// A decoded frame: its kind as named in `docs/protocol/frames.md`, and the fields of its body;
/// `None` if that is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelled {
    pub kind: &'static str,
    pub fields: Option<Fields>,
}

impl Fields {
    pub fn number(mut self, name: &'static str, value: impl Into<u64>) -> Fields {
        self.list.push((name, FieldValue::Number(value.into())));
        self
    }

    pub fn perhaps(self, name: &'static str, value: Option<impl Into<u64>>) -> Fields {
        match value {
            Some(value) => self.number(name, value),
            None => self,
        }
    }

    pub fn text(mut self, name: &'static str, value: impl ToString) -> Fields {
        self.list.push((name, FieldValue::Text(value.to_string())));
        self
    }

    pub fn hex(self, name: &'static str, bytes: &[u8]) -> Fields {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.text(name, digits)
    }

    pub fn and(mut self, other: Fields) -> Fields {
        self.list.extend(other.list);
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = &(&'static str, FieldValue)> {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_listed_in_the_order_in_which_they_were_named() {
        let behind = Fields::default().hex("digest", &[0, 0xAB]);
        let nothing: Option<u64> = None;
        let fields = Fields::default()
            .number("frames", 7_u64)
            .perhaps("absent", nothing)
            .perhaps("rank", Some(3_u16));
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
