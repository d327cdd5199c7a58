//! Report of the benchmark as a self-contained HTML page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::chart::{Series, log_chart};
use crate::report::{Cell, Report, Setting, fastest, place, receivers, size, table};

/// Content policy that forbids scripts and external resources, whatever a name or text contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = r##"
:root{color-scheme:light dark;--page:#fff;--ink:#1b2733;--muted:#566573;--line:#dde3e9;--good:#24722a;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--page:#12181f;--ink:#e6ebf0;--muted:#a3b0bc;--line:#2c3742;--good:#76c97a;
--bad:#ff8a7a}}
body{margin:0 auto;max-width:72rem;padding:1.25rem;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums}
h1{font-size:1.6rem;margin:0 0 .25rem}
h2{font-size:1.15rem;margin:2.25rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--line)}
.note{color:var(--muted);font-size:.9rem}
.good{color:var(--good)}.bad{color:var(--bad)}
figure{margin:.5rem 0}
figure svg{display:block;width:100%;height:auto;border:1px solid var(--line);border-radius:4px}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem}
th{text-align:left;color:var(--muted);font-weight:500;border-bottom:1px solid var(--line)}
th,td{padding:.15rem 1rem .15rem 0;white-space:nowrap}
@media print{.wide{overflow:visible}}"##;

pub fn page(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "ethbcast bench" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "ethbcast bench" }
                (machine(report))
                (who_wins(report))
                @for (heading, axis) in AXES { (charts(report, heading, axis)) }
                (all_figures(report))
            }
        }
    };
    page.into_string()
}

fn machine(report: &Report) -> Markup {
    html! {
        p.note {
            @for (at, (what, is)) in report.machine.iter().enumerate() { @if at > 0 { ", " } (what) " " (is) }
            ". Hosts are network namespaces of one machine: compare what stands in one table, not machines."
        }
        @if !report.skipped.is_empty() {
            p { "Not measured:" }
            ul { @for (tool, why) in &report.skipped { li { b { (tool) } ": " (why) } } }
        }
    }
}

fn who_wins(report: &Report) -> Markup {
    html! {
        h2 { "Who was fastest" }
        div.wide {
            table {
                thead { tr { th { "where" } th { "fastest" } } }
                tbody {
                    @for cell in &report.cells {
                        @let class = cell.winner().map_or("bad", |winner| if winner.is_own { "good" } else { "bad" });
                        tr { td { (place(cell)) } td class=(class) { (fastest(cell)) } }
                    }
                }
            }
        }
    }
}

/// Quantity on the x axis of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Receivers,
    Size,
    Loss,
}

const AXES: [(&str, Axis); 3] =
    [("Time against receivers", Axis::Receivers), ("Time against size", Axis::Size), ("Time against loss", Axis::Loss)];

impl Axis {
    fn of(self, setting: &Setting) -> f64 {
        match self {
            Axis::Receivers => f64::from(setting.receivers),
            Axis::Size => setting.size_bytes as f64,
            Axis::Loss => setting.loss * 100.0,
        }
    }

    /// Returns the setting without the axis's quantity, so that cells that differ in it share a
    /// chart.
    fn without(self, setting: &Setting) -> Setting {
        match self {
            Axis::Receivers => Setting { receivers: 0, ..*setting },
            Axis::Size => Setting { size_bytes: 0, ..*setting },
            Axis::Loss => Setting { loss: 0.0, ..*setting },
        }
    }

    fn label(self) -> &'static str {
        match self {
            Axis::Receivers => "receivers",
            Axis::Size => "bytes",
            Axis::Loss => "% of the frames lost at every host",
        }
    }

    fn title(self, setting: &Setting) -> String {
        let rate = setting.rate.map_or_else(|| "unshaped".to_owned(), ethbcast_lab::format_rate);
        let receivers = (self != Axis::Receivers).then(|| receivers(setting.receivers));
        let bytes = (self != Axis::Size).then(|| size(setting.size_bytes));
        let loss = (self != Axis::Loss).then(|| format!("loss {} %", setting.loss * 100.0));
        let always = [format!("MTU {}", setting.mtu_bytes), rate];
        bytes.into_iter().chain(receivers).chain(always).chain(loss).collect::<Vec<_>>().join(", ")
    }
}

/// Draws a chart for every group of several cells that differ only in the axis's quantity.
fn charts(report: &Report, heading: &str, axis: Axis) -> Markup {
    let mut groups: Vec<(Setting, Vec<&Cell>)> = Vec::new();
    for cell in &report.cells {
        let same = axis.without(&cell.setting);
        match groups.iter_mut().find(|(setting, _)| *setting == same) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((same, vec![cell])),
        }
    }
    groups.retain(|(_, cells)| cells.len() > 1);
    html! {
        @if !groups.is_empty() {
            h2 { (heading) }
            @for (_, cells) in &groups {
                @if let Some(svg) = chart(report, axis, cells) { figure { (PreEscaped(svg)) } }
            }
        }
    }
}

fn chart(report: &Report, axis: Axis, cells: &[&Cell]) -> Option<String> {
    const MILLISECONDS: f64 = 1e3;
    let line = |name: &str, seconds: &dyn Fn(&Cell) -> Option<f64>| {
        let mut points: Vec<(f64, f64)> =
            cells.iter().filter_map(|cell| Some((axis.of(&cell.setting), seconds(cell)? * MILLISECONDS))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Series::new(name, points)
    };
    let seconds = |cell: &Cell, tool: &str| {
        let run = cell.runs.iter().find(|run| run.tool == tool)?;
        cell.seconds(run)
    };
    let tools = report.tools();
    let mut series: Vec<Series> = tools.iter().map(|tool| line(tool, &|cell| seconds(cell, tool))).collect();
    let raw = |at: usize| move |cell: &Cell| Some(cell.raw_seconds()[at].1).filter(|seconds| seconds.is_finite());
    let limits = [
        line("wire limit", &|cell| cell.setting.wire_seconds()),
        line("raw broadcast", &raw(0)),
        line("raw chain", &raw(1)),
    ];
    series.extend(limits.map(|limit| Series { is_limit: true, ..limit }));
    // Tools that cannot handle these sizes have no line.
    series.retain(|series| !series.points.is_empty());
    let title = axis.title(&cells.first()?.setting);
    let is_drawn = series.iter().any(|series| !series.is_limit);
    is_drawn.then(|| log_chart(&title, axis.label(), "ms", &series, axis == Axis::Size))
}

fn all_figures(report: &Report) -> Markup {
    let table = table(report);
    let mut lines = table.lines();
    let heading = lines.next().unwrap_or_default();
    html! {
        h2 { "All figures" }
        p.note {
            "seconds: of a file from the first data on the sender's cable to the sender's end, of a message from the \
             call to the end of the barrier behind it. Wire limit: one copy on a cable with all headers. Raw: frames \
             without a protocol, by the same driver, in the same run and without loss; a chain is held to the raw \
             chain, everything else to the raw broadcast. CPU s/GiB: processor time of all programs for each GiB at a \
             receiver."
        }
        div.wide {
            table {
                thead { tr { @for cell in heading { th { (cell) } } } }
                tbody { @for line in lines { tr { @for cell in line { td { (cell) } } } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{cell, setting};

    #[test]
    fn a_page_has_a_chart_for_each_axis_that_varies_and_says_where_others_win() {
        let mut cells = Vec::new();
        for receivers in [3, 7] {
            for size_bytes in [1 << 12, 1 << 24] {
                let times = [("ethbcast <chain>", Some(5.0)), ("TCP chain", Some(2.5)), ("uftp", None)];
                cells.push(cell(setting(receivers, size_bytes, 0.01), &times));
            }
        }
        let page = page(&Report { machine: vec![], skipped: vec![("MPICH".into(), "not <here>".into())], cells });
        assert_eq!(page.matches("<svg ").count(), 4, "two sizes against receivers, two receivers against sizes");
        assert!(page.contains("Time against size") && !page.contains("Time against loss"));
        assert_eq!(page.matches("TCP chain, 2.00 x faster than ours").count(), 4);
        assert!(page.contains("not &lt;here&gt;") && page.contains("it &lt;failed&gt;"), "what is said is escaped");
        assert!(!page.contains("<chain>"));
        // The only address in the page is the XML namespace of SVG.
        let named = page.matches("http-equiv").count() + page.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(page.matches("http").count(), named);
        assert!(page.contains(">wire limit<") && page.contains(">raw broadcast<"));
    }
}
