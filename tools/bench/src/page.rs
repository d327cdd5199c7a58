//! Report of the benchmark as a self-contained HTML page.

use crate::report::{Cell, Report, Setting, fastest, place, receivers, size, table};
use ethbcast_planning::draw::canvas::{Canvas, polyline, text};
use maud::{DOCTYPE, Markup, PreEscaped, html};

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
    let body = html! {
        h1 { "ethbcast bench" }
        (machine(report))
        (who_wins(report))
        @for (heading, axis) in AXES { (charts(report, heading, axis)) }
        (all_figures(report))
    };
    document("ethbcast bench", None, STYLE, &body)
}

/// Renders a self-contained page, also for other reports.
pub fn document(title: &str, color_scheme: Option<&str>, style: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                @if let Some(scheme) = color_scheme { meta name="color-scheme" content=(scheme); }
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body { (body) }
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Receivers,
    Size,
    Loss,
}

const AXES: [(&str, Axis); 3] = [
    ("Time against receivers", Axis::Receivers),
    ("Time against size", Axis::Size),
    ("Time against loss", Axis::Loss),
];

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
            Axis::Receivers => Setting {
                receivers: 0,
                ..*setting
            },
            Axis::Size => Setting {
                size_bytes: 0,
                ..*setting
            },
            Axis::Loss => Setting {
                loss: 0.0,
                ..*setting
            },
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
        let rate = setting
            .rate
            .map_or_else(|| "unshaped".to_owned(), ethbcast_lab::format_rate);
        let receivers = (self != Axis::Receivers).then(|| receivers(setting.receivers));
        let bytes = (self != Axis::Size).then(|| size(setting.size_bytes));
        let loss = (self != Axis::Loss).then(|| format!("loss {} %", setting.loss * 100.0));
        let always = [format!("MTU {}", setting.mtu_bytes), rate];
        bytes
            .into_iter()
            .chain(receivers)
            .chain(always)
            .chain(loss)
            .collect::<Vec<_>>()
            .join(", ")
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
        let mut points: Vec<(f64, f64)> = cells
            .iter()
            .filter_map(|cell| Some((axis.of(&cell.setting), seconds(cell)? * MILLISECONDS)))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Series::new(name, points)
    };
    let seconds = |cell: &Cell, tool: &str| {
        let run = cell.runs.iter().find(|run| run.tool == tool)?;
        cell.seconds(run)
    };
    let tools = report.tools();
    let mut series: Vec<Series> = tools
        .iter()
        .map(|tool| line(tool, &|cell| seconds(cell, tool)))
        .collect();
    let raw = |at: usize| {
        move |cell: &Cell| Some(cell.raw_seconds()[at].1).filter(|seconds| seconds.is_finite())
    };
    let limits = [
        line("wire limit", &|cell| cell.setting.wire_seconds()),
        line("raw broadcast", &raw(0)),
        line("raw chain", &raw(1)),
    ];
    series.extend(limits.map(|limit| Series {
        is_limit: true,
        ..limit
    }));
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

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 440.0;
/// Rectangle of the axes: left, top, right, bottom.
const FRAME: [f64; 4] = [88.0, 44.0, 620.0, 384.0];
/// Height of a line of the legend, right of the frame.
const LEGEND_PITCH: f64 = 20.0;
/// Okabe and Ito's colours, which most people can distinguish, and darker ones for as many tools as
/// a bench has.
const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7a3b00",
    "#6a3d9a", "#5d7a00", "#b3003b", "#00545c",
];
const DASHES: [&str; 3] = ["none", "6 4", "2 3"];
const LIMIT_COLOUR: &str = "#888888";
const LIMIT_DASHES: [&str; 3] = ["1 3", "8 3 1 3", "4 4"];
/// Limit on the marks of an axis, whose numbers would overlap otherwise.
const MAX_MARKS: usize = 12;

#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Whether it is a limit for the others, drawn grey and dotted.
    pub is_limit: bool,
}

impl Series {
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
            is_limit: false,
        }
    }
}

/// Draws the chart as an SVG document. The y axis begins at 0; the x axis covers the points, by
/// powers of two if `log_x`.
pub fn line_chart(
    title: &str,
    x_label: &str,
    y_label: &str,
    series: &[Series],
    log_x: bool,
) -> String {
    drawn(
        title,
        x_label,
        y_label,
        series,
        &Axes::around(series, log_x),
    )
}

/// Draws the chart with a y axis by powers of ten, for values of very different magnitude.
pub fn log_chart(
    title: &str,
    x_label: &str,
    y_label: &str,
    series: &[Series],
    log_x: bool,
) -> String {
    drawn(
        title,
        x_label,
        y_label,
        series,
        &Axes::around(series, log_x).with_log_y(series),
    )
}

fn drawn(title: &str, x_label: &str, y_label: &str, all: &[Series], axes: &Axes) -> String {
    let [left, top, right, bottom] = FRAME;
    let height = HEIGHT.max(top + LEGEND_PITCH * (all.len() + 1) as f64);
    let mut canvas = Canvas::new(WIDTH, height, "font-size=\"12\"");
    let (middle, centre) = ((left + right) / 2.0, (top + bottom) / 2.0);
    canvas.push(&text((middle, 24.0), "middle", "font-size=\"15\"", title));
    canvas.push(&text((middle, bottom + 40.0), "middle", "", x_label));
    let turned = format!("transform=\"rotate(-90 18 {centre})\"");
    canvas.push(&text((18.0, centre), "middle", &turned, y_label));
    for y in axes.y_marks() {
        canvas.push(&line((left, axes.y(y)), (right, axes.y(y)), "#dddddd"));
        canvas.push(&text((left - 8.0, axes.y(y) + 4.0), "end", "", &short(y)));
    }
    for x in axes.x_marks() {
        canvas.push(&line(
            (axes.x(x), bottom),
            (axes.x(x), bottom + 5.0),
            "black",
        ));
        canvas.push(&text((axes.x(x), bottom + 19.0), "middle", "", &short(x)));
    }
    canvas.push(&line((left, bottom), (right, bottom), "black"));
    canvas.push(&line((left, top), (left, bottom), "black"));
    for (index, series) in all.iter().enumerate() {
        let of_kind = all[..index]
            .iter()
            .filter(|other| other.is_limit == series.is_limit)
            .count();
        draw(&mut canvas, axes, (index, of_kind), series);
    }
    canvas.finish()
}

/// Draws a series with its entry in the legend. `index` counts all series, `of_kind` results or
/// limits.
fn draw(canvas: &mut Canvas, axes: &Axes, (index, of_kind): (usize, usize), series: &Series) {
    let (colour, dashes) = match series.is_limit {
        true => (LIMIT_COLOUR, LIMIT_DASHES[of_kind % LIMIT_DASHES.len()]),
        false => (
            COLOURS[index % COLOURS.len()],
            DASHES[index / COLOURS.len() % DASHES.len()],
        ),
    };
    let points: Vec<(f64, f64)> = series
        .points
        .iter()
        .map(|&(x, y)| (axes.x(x), axes.y(y)))
        .collect();
    let stroke = format!(
        "fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\""
    );
    canvas.push(&polyline(&points, &stroke));
    for (x, y) in points {
        canvas.push(&format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
        ));
    }
    let (x, y) = (
        FRAME[2] + 16.0,
        FRAME[1] + 10.0 + LEGEND_PITCH * index as f64,
    );
    canvas.push(&polyline(&[(x, y), (x + 24.0, y)], &stroke));
    canvas.push(&text((x + 30.0, y + 4.0), "start", "", &series.name));
}

struct Axes {
    log_x: bool,
    x: [f64; 2],
    /// Lower end of a logarithmic y axis; a linear one begins at zero.
    bottom: Option<f64>,
    top: f64,
}

impl Axes {
    fn around(series: &[Series], log_x: bool) -> Self {
        let points = || series.iter().flat_map(|series| &series.points);
        assert!(points().next().is_some(), "a chart needs a point");
        assert!(
            points().all(|(x, y)| x.is_finite() && y.is_finite() && *y >= 0.0),
            "coordinates are finite and y is not negative"
        );
        assert!(
            !log_x || points().all(|(x, _)| *x > 0.0),
            "a logarithmic axis has positive numbers only"
        );
        let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let greatest = points()
            .map(|point| point.0)
            .fold(f64::NEG_INFINITY, f64::max);
        let highest = points().map(|point| point.1).fold(0.0, f64::max);
        // An axis needs a length, even with a single point or with none above 0.
        let greatest = if greatest > least {
            greatest
        } else {
            least + 1.0
        };
        let highest = if highest > 0.0 { highest } else { 1.0 };
        Self {
            log_x,
            x: [least, greatest],
            bottom: None,
            top: (highest / step(highest)).ceil() * step(highest),
        }
    }

    fn with_log_y(self, series: &[Series]) -> Self {
        let values = || {
            series
                .iter()
                .flat_map(|series| &series.points)
                .map(|point| point.1)
        };
        assert!(
            values().all(|y| y > 0.0),
            "a logarithmic axis has positive numbers only"
        );
        let least = values().fold(f64::INFINITY, f64::min).log10().floor();
        let greatest = values().fold(f64::NEG_INFINITY, f64::max).log10().ceil();
        let bottom = 10f64.powf(least);
        // An axis needs a length, even with a single power of ten.
        Self {
            bottom: Some(bottom),
            top: 10f64.powf(greatest.max(least + 1.0)),
            ..self
        }
    }

    fn x(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.log_x { value.log2() } else { value };
        let [least, greatest] = self.x.map(scale);
        FRAME[0] + (scale(value) - least) / (greatest - least) * (FRAME[2] - FRAME[0])
    }

    fn y(&self, value: f64) -> f64 {
        let part = self.bottom.map_or(value / self.top, |bottom| {
            (value / bottom).log10() / (self.top / bottom).log10()
        });
        FRAME[3] - part * (FRAME[3] - FRAME[1])
    }

    fn y_marks(&self) -> Vec<f64> {
        if let Some(bottom) = self.bottom {
            let powers = (self.top / bottom).log10().round() as i32;
            return (0..=powers)
                .map(|power| bottom * 10f64.powi(power))
                .collect();
        }
        let step = step(self.top);
        (0..=(self.top / step).round() as usize)
            .map(|mark| mark as f64 * step)
            .collect()
    }

    fn x_marks(&self) -> Vec<f64> {
        let [least, greatest] = self.x;
        if !self.log_x {
            let step = step(greatest - least);
            let (first, last) = (
                (least / step).ceil() as i64,
                (greatest / step).floor() as i64,
            );
            return (first..=last).map(|mark| mark as f64 * step).collect();
        }
        let (first, last) = (least.log2().ceil() as i32, greatest.log2().floor() as i32);
        let powers = (first..=last)
            .map(|power| f64::from(power).exp2())
            .collect::<Vec<_>>();
        let every = powers.len().div_ceil(MAX_MARKS).max(1);
        powers.into_iter().step_by(every).collect()
    }
}

/// Returns a round distance between marks that puts 4 to 10 of them on an axis.
fn step(length: f64) -> f64 {
    let power = 10f64.powf((length / 4.0).log10().floor());
    let steps = [5.0, 2.0, 1.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| length / step >= 4.0)
        .unwrap_or(power)
}

/// Formats a mark: whole powers of 1024 with their letter, otherwise with as few digits as
/// possible.
fn short(value: f64) -> String {
    let letters = [(30, "Gi"), (20, "Mi"), (10, "Ki")]
        .map(|(power, letter)| (f64::from(power).exp2(), letter));
    let unit = letters
        .into_iter()
        .find(|(unit, _)| value > 1024.0 && value % unit == 0.0);
    let rounded = |value: f64| (value * 1e6).round() / 1e6;
    unit.map_or_else(
        || rounded(value).to_string(),
        |(unit, letter)| format!("{}{letter}", value / unit),
    )
}

fn line(from: (f64, f64), to: (f64, f64), colour: &str) -> String {
    format!(
        "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    )
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
                let times = [
                    ("ethbcast <chain>", Some(5.0)),
                    ("TCP chain", Some(2.5)),
                    ("uftp", None),
                ];
                cells.push(cell(setting(receivers, size_bytes, 0.01), &times));
            }
        }
        let page = page(&Report {
            machine: vec![],
            skipped: vec![("MPICH".into(), "not <here>".into())],
            cells,
        });
        assert_eq!(
            page.matches("<svg ").count(),
            4,
            "two sizes against receivers, two receivers against sizes"
        );
        assert!(page.contains("Time against size") && !page.contains("Time against loss"));
        assert_eq!(
            page.matches("TCP chain, 2.00 x faster than ours").count(),
            4
        );
        assert!(
            page.contains("not &lt;here&gt;") && page.contains("it &lt;failed&gt;"),
            "what is said is escaped"
        );
        assert!(!page.contains("<chain>"));
        // The only address in the page is the XML namespace of SVG.
        let named =
            page.matches("http-equiv").count() + page.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(page.matches("http").count(), named);
        assert!(page.contains(">wire limit<") && page.contains(">raw broadcast<"));
    }

    fn count(svg: &str, what: &str) -> usize {
        svg.matches(what).count()
    }

    #[test]
    fn every_series_has_its_points_and_a_legend() {
        let series = [
            Series::new("one & all", [(1.0, 2.0), (2.0, 3.0)]),
            Series::new("<two>", [(1.0, 0.5)]),
        ];
        let svg = line_chart("title", "x", "y", &series, false);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!((count(&svg, "<circle"), count(&svg, "<polyline")), (3, 4));
        assert!(svg.contains(">one &amp; all<") && svg.contains(">&lt;two&gt;<"));
    }

    #[test]
    fn the_corners_of_the_frame_are_the_extremes() {
        let axes = Axes::around(&[Series::new("", [(16.0, 0.0), (1024.0, 10.0)])], true);
        assert_eq!(
            [axes.x(16.0), axes.x(128.0), axes.x(1024.0)],
            [FRAME[0], (FRAME[0] + FRAME[2]) / 2.0, FRAME[2]]
        );
        assert_eq!([axes.y(0.0), axes.y(10.0)], [FRAME[3], FRAME[1]]);
        assert_eq!(
            axes.x_marks(),
            [16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]
        );
        assert_eq!(axes.y_marks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn on_a_logarithmic_axis_every_decade_is_as_high() {
        let series = [Series::new("", [(1.0, 0.03), (2.0, 7.0)])];
        let axes = Axes::around(&series, true).with_log_y(&series);
        assert_eq!(
            axes.y_marks()
                .iter()
                .map(|mark| (mark * 1e3).round())
                .collect::<Vec<_>>(),
            [10.0, 1e2, 1e3, 1e4]
        );
        let heights = [0.01, 0.1, 1.0, 10.0].map(|value| axes.y(value));
        assert!(
            heights
                .windows(2)
                .all(|pair| (pair[0] - pair[1] - (FRAME[3] - FRAME[1]) / 3.0).abs() < 1e-6)
        );
    }

    #[test]
    fn marks_are_round_numbers() {
        assert_eq!(
            [0.9, 1.0, 7.0, 16.0, 19.0, 40.0, 1000.0].map(step),
            [0.2, 0.2, 1.0, 2.0, 2.0, 10.0, 200.0]
        );
        assert_eq!(
            [0.6000000000000001, 1024.0, 65536.0, 3145728.0, 1500.0].map(short),
            ["0.6", "1024", "64Ki", "3Mi", "1500"]
        );
    }

    #[test]
    fn one_point_is_a_chart() {
        let svg = line_chart("", "", "", &[Series::new("", [(5.0, 0.0)])], false);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
