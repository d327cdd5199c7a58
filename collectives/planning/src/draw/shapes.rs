//! SVG shapes for hosts, switches and cables in the topology's picture, and their style.

use super::canvas::escape;

pub(super) const CHARACTER_WIDTH: f64 = 8.2;

/// Longest name shown whole; a longer one is cut, and its tooltip has the whole name.
const SHOWN_CHARACTERS: usize = 24;

const STYLE: &str = "text{font:13px 'DejaVu Sans',Verdana,Helvetica,sans-serif;fill:#1b2733}\
text.load{font-size:12px}text.hot{fill:#c0392b}.patch{fill:#fff}\
.cable{fill:none;stroke:#5b6b7a;stroke-width:1.5}path.hot{stroke:#c0392b}\
.edge,.copied{fill:none;stroke:#1f6fb2;stroke-width:1.5}.blocked{fill:none;stroke:#9aa5af;stroke-dasharray:5 4}\
text.title{font-size:16px;font-weight:bold}\
.switch{fill:#dbe7f3;stroke:#2c4a66}.host{fill:#fff;stroke:#5b6b7a}\
.root{fill:#d9f2dc;stroke:#2e7d32;stroke-width:2}.contended{fill:#fde8e4;stroke:#c0392b}.head{fill:#1f6fb2}";

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub x: f64,
    pub y: f64,
}

impl Position {
    pub fn halfway(self, other: Self) -> Self {
        Self {
            x: (self.x + other.x) / 2.0,
            y: (self.y + other.y) / 2.0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Rect {
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }

    pub fn middle(&self) -> Position {
        Position {
            x: self.x + self.width / 2.0,
            y: self.y + self.height / 2.0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Paint {
    Switch,
    Host,
    Root,
    Contended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Plain,
    Contended,
    Copied,
    Blocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Cable,
    Copied,
    Edge,
    Loads,
    Root,
    Blocked,
}

pub(super) const SIGN_WIDTH: f64 = 64.0;

pub(super) fn legend_line(at: Position, sign: Sign, text: &str) -> String {
    let (x, y) = (at.x + SIGN_WIDTH, at.y);
    format!(
        "{}<text class=\"load\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n",
        sign_at(at, sign),
        escape(text)
    )
}

pub(super) fn sign_alone(sign: Sign) -> String {
    let drawn = sign_at(Position { x: 0.0, y: 12.0 }, sign);
    format!(
        "<svg width=\"{:.0}\" height=\"16\" aria-hidden=\"true\">{drawn}</svg>",
        SIGN_WIDTH - 12.0
    )
}

fn sign_at(at: Position, sign: Sign) -> String {
    let Position { x, y } = at;
    let line = |class: &str, head: &str| {
        format!(
            "<path class=\"{class}\"{head} d=\"M{x:.1} {:.1}H{:.1}\"/>",
            y - 4.0,
            x + SIGN_WIDTH - 16.0
        )
    };
    let head = " marker-end=\"url(#head)\"";
    match sign {
        Sign::Cable => line("cable", ""),
        Sign::Copied | Sign::Edge => line("copied", head),
        Sign::Blocked => line("blocked", ""),
        Sign::Loads => format!("<text class=\"load\" x=\"{x:.1}\" y=\"{y:.1}\">↑1 ↓8!</text>"),
        Sign::Root => {
            format!(
                "<rect class=\"root\" x=\"{x:.1}\" y=\"{:.1}\" width=\"40\" height=\"14\" rx=\"4\"/>",
                y - 11.0
            )
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    File,
    Element,
}

pub(super) fn document(width: f64, height: f64, title: &str, body: &str, whole: Whole) -> String {
    let title = escape(title);
    let (style, ground) = match whole {
        Whole::File => (
            format!("<style>{STYLE}</style>\n"),
            "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        ),
        Whole::Element => (String::new(), ""),
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 \
         {width:.0} {height:.0}\">\n\
         <title>{title}</title>\n\
         {style}<defs><marker id=\"head\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\">\
         <path class=\"head\" d=\"M0 0L10 5L0 10z\"/></marker></defs>\n\
         {ground}<text class=\"title\" x=\"24\" y=\"30\">{title}</text>\n{body}</svg>\n"
    )
}

pub(super) fn named_box(rect: Rect, name: &str, loads: &str, paint: Paint) -> String {
    let class = match paint {
        Paint::Switch => "switch",
        Paint::Host => "host",
        Paint::Root => "root",
        Paint::Contended => "contended",
    };
    let Rect {
        x,
        y,
        width,
        height,
    } = rect;
    let baseline = y + height / 2.0 + 4.5;
    let text = if loads.is_empty() {
        format!(
            "<text x=\"{:.1}\" y=\"{baseline:.1}\" text-anchor=\"middle\">{}</text>",
            rect.middle().x,
            escape(&shown(name))
        )
    } else {
        format!(
            "<text x=\"{:.1}\" y=\"{baseline:.1}\">{}</text><text class=\"load\" x=\"{:.1}\" y=\"{baseline:.1}\" \
             text-anchor=\"end\">{}</text>",
            x + 8.0,
            escape(&shown(name)),
            rect.right() - 8.0,
            escape(loads)
        )
    };
    format!(
        "<g><title>{}</title><rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\" rx=\"4\"/>{text}</g>\n",
        escape(name)
    )
}

pub(super) fn drop(from: Position, to: Position, line: Line) -> String {
    let turn = from.halfway(to).y;
    let class = match line {
        Line::Plain => "cable",
        Line::Contended => "cable hot",
        Line::Copied => "copied\" marker-end=\"url(#head)",
        Line::Blocked => "blocked",
    };
    format!(
        "<path class=\"{class}\" d=\"M{:.1} {:.1}C{:.1} {turn:.1} {:.1} {turn:.1} {:.1} {:.1}\"/>\n",
        from.x, from.y, from.x, to.x, to.x, to.y
    )
}

/// Draws text on a white patch, so that a line does not run through the letters.
pub(super) fn label(at: Position, text: &str, contended: bool) -> String {
    let hot = if contended { " hot" } else { "" };
    let width = text.chars().count() as f64 * CHARACTER_WIDTH + 2.0;
    format!(
        "<rect class=\"patch\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"14\"/>\
         <text class=\"load{hot}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
        at.x - width / 2.0,
        at.y - 7.0,
        at.x,
        at.y + 4.0,
        escape(text)
    )
}

/// Draws the cables from a switch to its hosts. They go down, along a rail above the hosts and down
/// the left of each column, with a stub to each host. They may carry copies of one frame.
pub(super) fn trunk(switch: Rect, hosts: &[Rect], copied: bool) -> String {
    let (Some(first), Some(last)) = (hosts.first(), hosts.last()) else {
        return String::new();
    };
    let (middle, rail) = (switch.middle().x, first.y - 14.0);
    let left = |host: &Rect| host.x - 12.0;
    let (low, high) = (middle.min(left(first)), middle.max(left(last)));
    let mut path = format!(
        "M{middle:.1} {:.1}V{rail:.1}M{low:.1} {rail:.1}H{high:.1}",
        switch.bottom()
    );
    for host in hosts {
        path += &format!(
            "M{:.1} {rail:.1}V{:.1}H{:.1}",
            left(host),
            host.middle().y,
            host.x
        );
    }
    format!(
        "<path class=\"{}\" d=\"{path}\"/>\n",
        if copied { "copied" } else { "cable" }
    )
}

/// Draws an edge of a plan: beside the column between two hosts of one, across otherwise.
pub(super) fn arrow(from: Rect, to: Rect, order: Option<usize>) -> String {
    let (start, end, bend_start, bend_end) = if from.x == to.x {
        let bulge = (20.0 + (from.y - to.y).abs() / 6.0).min(56.0);
        (
            from.right(),
            to.right(),
            from.right() + bulge,
            to.right() + bulge,
        )
    } else if from.x < to.x {
        let reach = (to.x - from.right()) / 2.0;
        (from.right(), to.x, from.right() + reach, to.x - reach)
    } else {
        let reach = (from.x - to.right()) / 2.0;
        (from.x, to.right(), from.x - reach, to.right() + reach)
    };
    let (start_y, end_y) = (from.middle().y, to.middle().y);
    let path = format!(
        "<path class=\"edge\" marker-end=\"url(#head)\" d=\"M{start:.1} {start_y:.1}C{bend_start:.1} {start_y:.1} \
         {bend_end:.1} {end_y:.1} {end:.1} {end_y:.1}\"/>\n"
    );
    let number = order.map(|order| {
        // Numbers stand near the receiver, where no other edge ends, so that they do not overlap.
        let near_end = |start: f64, bend: f64, far: f64, end: f64| {
            0.008 * start + 0.096 * bend + 0.384 * far + 0.512 * end
        };
        let x = near_end(start, bend_start, bend_end, end);
        label(
            Position {
                x,
                y: near_end(start_y, start_y, end_y, end_y),
            },
            &order.to_string(),
            false,
        )
    });
    path + &number.unwrap_or_default()
}

pub(super) fn shown(name: &str) -> String {
    if name.chars().count() <= SHOWN_CHARACTERS {
        return name.to_string();
    }
    name.chars()
        .take(SHOWN_CHARACTERS - 1)
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_but_not_lost() {
        let name = "x".repeat(40);
        let drawn = named_box(
            Rect {
                x: 0.0,
                y: 0.0,
                width: 9.0,
                height: 9.0,
            },
            &name,
            "",
            Paint::Host,
        );
        assert!(
            drawn.contains(&format!(">{}…</text>", "x".repeat(23)))
                && drawn.contains(&format!("<title>{name}</title>"))
        );
    }
}
