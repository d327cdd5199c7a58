//! SVG elements from which all the project's pictures are drawn.

#[derive(Clone, Debug)]
pub struct Canvas {
    svg: String,
}

impl Canvas {
    /// Begins a picture of this size; `attributes` apply to all of its elements.
    pub fn new(width: f64, height: f64, attributes: &str) -> Self {
        let mut canvas = Self { svg: String::new() };
        canvas.push(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             {attributes}>"
        ));
        canvas.push(&format!(
            "<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>"
        ));
        canvas
    }

    pub fn push(&mut self, element: &str) {
        self.svg += element;
        self.svg.push('\n');
    }

    pub fn finish(mut self) -> String {
        self.push("</svg>");
        self.svg
    }
}

/// Escapes text for SVG, in elements and in attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Returns text at a place; `anchor` is `start`, `middle` or `end`.
pub fn text((x, y): (f64, f64), anchor: &str, attributes: &str, words: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {attributes}>{}</text>",
        escape(words)
    )
}

pub fn rect((x, y): (f64, f64), (width, height): (f64, f64), attributes: &str) -> String {
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {attributes}/>"
    )
}

pub fn polyline(points: &[(f64, f64)], attributes: &str) -> String {
    let joined: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    format!("<polyline points=\"{}\" {attributes}/>", joined.join(" "))
}

/// Returns the data of a path through whole coordinates. Points on the straight line between their
/// neighbours are omitted.
pub fn path(points: &[(i64, i64)]) -> String {
    let mut places = points.to_vec();
    places.dedup();
    let mut path = String::new();
    for (at, &(x, y)) in places.iter().enumerate() {
        let is_needed = at == 0
            || at + 1 == places.len()
            || !is_between(places[at - 1], (x, y), places[at + 1]);
        if is_needed {
            path += &format!("{}{x} {y}", if at == 0 { "M" } else { "L" });
        }
    }
    path
}

fn is_between(before: (i64, i64), here: (i64, i64), behind: (i64, i64)) -> bool {
    (here.0 - before.0) * (behind.1 - here.1) == (here.1 - before.1) * (behind.0 - here.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_with_a_meaning_in_xml_are_escaped() {
        assert_eq!(escape("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
    }

    #[test]
    fn a_straight_line_has_two_points() {
        assert_eq!(
            path(&[(0, 2), (1, 1), (1, 1), (2, 0), (9, 0)]),
            "M0 2L2 0L9 0"
        );
    }
}
