//! The page as HTML. Everything from a recording is treated as text: it is escaped in the body, and each `<`
//! is escaped in the data. The browser runs only the two scripts whose digests the page names, and loads
//! nothing.

use super::drive::DriveShown;
use super::tables::{goals, machine, readings, table};
use crate::field::slices::SLICES;
use crate::system::sanitize::{self, markup};
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::fmt::Write;

/// The bytes that every page begins with. A file without them is not overwritten.
pub const BEGIN: &str = "<!doctype html>\n<!-- a report of ganglion -->\n";
/// uPlot 1.6.32, as in its npm package.
const UPLOT: &str = include_str!("uplot/uPlot.iife.min.js");
/// The style sheet of uPlot.
const UPLOT_LOOKS: &str = include_str!("uplot/uPlot.min.css");
/// The licence of uPlot, which each copy has to contain.
const UPLOT_LICENCE: &str = include_str!("uplot/LICENSE");
/// The script that draws the curves.
const SCRIPT: &str = include_str!("page.js");
/// The page's own style sheet.
const LOOKS: &str = include_str!("page.css");
/// SHA-256 of the two scripts in base64: a browser runs no others. A test compares these with the scripts.
const DIGESTS: [&str; 2] =
    ["GcjUxq2Ikpp59K5J1vcWFWbf0Lo9FcxJXpdPeH63jx8=", "tSzScssRXBd2Dx2QJ/jB/lvKY0IAQK0AbvapUgAxUec="];
/// Maximum number of rows in the table of events and in that of stops; the timeline shows all events.
const MOST_ROWS: usize = 500;

/// The page.
pub fn html(drive: &DriveShown) -> String {
    let title = markup(&format!("ganglion report: {}", word(drive, "board")));
    let mut html = String::from(BEGIN);
    let digests = DIGESTS.map(|digest| format!("'sha256-{digest}'")).join(" ");
    html += "<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
    let policy =
        format!("default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; base-uri 'none'");
    let _ = writeln!(html, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    html += "<meta name=\"color-scheme\" content=\"light dark\">\n";
    let _ = writeln!(html, "<title>{title}</title>\n<style>{UPLOT_LOOKS}\n{LOOKS}</style></head><body>");
    body(&mut html, drive, &title);
    let _ = writeln!(html, "<!-- uPlot 1.6.32, https://github.com/leeoniya/uPlot\n{UPLOT_LICENCE}-->");
    // In JSON a `<` can only be inside a string, where this escape means the same.
    let data = sanitize::json(data(drive).to_string()).replace('<', "\\u003c");
    let _ = writeln!(html, "<script type=\"application/json\" id=\"data\">{data}</script>");
    let _ = writeln!(html, "<script>{UPLOT}</script>\n<script>{SCRIPT}</script>");
    html + "</body></html>\n"
}

fn word<'a>(drive: &'a DriveShown, key: &str) -> &'a str {
    drive.words.get(key).map_or("", String::as_str)
}

fn body(html: &mut String, drive: &DriveShown, title: &str) {
    let _ = writeln!(html, "<header><h1>{title}</h1></header>\n<main>");
    section(html, "summary", "What happened", [&summary(drive), ""]);
    html.push_str(BAR);
    section(html, "timeline", "Modes, quality levels and reflexes", ["", &events(drive)]);
    section(html, "commands", "Commands", ["", ""]);
    let modelled = match word(drive, "clock") {
        "virtual" => "<p>The run was in virtual time: these times are modelled, not measured.</p>",
        _ => "",
    };
    section(html, "lateness", "How late the loop was", [modelled, &times(drive)]);
    let marked = "<p>Red bands and crosses mark the times at which the newest reading was refused, too old or \
                  missing (\"never\": none has come yet); the line then shows the last good value.</p>";
    section(html, "sensors", "Sensors", [marked, &readings(&drive.sensors)]);
    let path = match drive.path {
        Some(_) => {
            "<p>The path is an estimate: it is computed from the commands, and from the measured turns if the \
             board names a gyroscope. It drifts, and does not notice when a wheel slips or a wall blocks the \
             robot.</p>"
        }
        None => "<p>The board does not state how its commands move it ([motion]), so there is no path.</p>",
    };
    section(html, "path", "Path", ["", &format!("{path}{}", goals(&drive.goals))]);
    section(html, "field", "Field", ["", &slices(drive)]);
    let machine = match &drive.status {
        Some(status) => machine(status),
        None => "<p>The recording holds no status: a run in virtual time records none.</p>".to_string(),
    };
    section(html, "machine", "Buses, engine and machine", [&machine, ""]);
    section(html, "configuration", "Configuration", [&configuration(drive), ""]);
    let _ = writeln!(html, "</main><footer><p>{}</p></footer>", markup(&detail(drive)));
}

/// The buttons that zoom all curves at once.
const BAR: &str = "<nav id=\"bar\" aria-label=\"Zoom\"><span id=\"range\"></span>\
<button id=\"in\">zoom in</button><button id=\"out\">zoom out</button><button id=\"back\">earlier</button>\
<button id=\"on\">later</button><button id=\"all\">whole run</button></nav>\n\
<noscript><p class=\"warning\">Curves need JavaScript, which is off. Text and tables are complete.</p></noscript>\n";

/// A section: text, its plots, more text.
fn section(html: &mut String, id: &str, title: &str, [before, after]: [&str; 2]) {
    let _ = writeln!(
        html,
        "<section id=\"{id}\"><h2>{title}</h2>\n{before}<div class=\"plots\"></div>{after}</section>"
    );
}

fn summary(drive: &DriveShown) -> String {
    let mut html = String::from("<ul class=\"sentences\">");
    drive.sentences.iter().for_each(|sentence| html += &format!("<li>{}</li>", markup(sentence)));
    html += "</ul>\n";
    let stops = &drive.summary.stops;
    if !stops.is_empty() {
        html += "<h3>Each stop of the armed robot</h3>";
        let rows =
            stops.iter().take(MOST_ROWS).map(|stop| vec![format!("{:.2} s", stop.at_s), stop.why.clone()]);
        html += &table(&["after", "why"], &rows.collect::<Vec<_>>());
        html += &more(stops.len(), "'ganglion log info --json' lists each stop.");
    }
    html
}

/// A sentence about the rows left out of the table.
fn more(rows: usize, where_to_find: &str) -> String {
    match rows.saturating_sub(MOST_ROWS) {
        0 => String::new(),
        more => format!("<p>{more} more are not in this table. {where_to_find}</p>"),
    }
}

fn events(drive: &DriveShown) -> String {
    let rows = drive
        .marks
        .iter()
        .take(MOST_ROWS)
        .map(|mark| vec![format!("{:.2} s", mark.0), mark.1.to_string(), mark.2.clone()]);
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return "<p>No reflex tripped, and nothing was requested.</p>".to_string();
    }
    let all = table(&["after", "what", "which"], &rows);
    let more = more(drive.marks.len(), "The timeline shows them.");
    format!("<details><summary>Table of events</summary>{all}{more}</details>")
}

fn times(drive: &DriveShown) -> String {
    let rows = drive.times.iter().map(|times| {
        let found = times.percentiles;
        let micros = [found.p50, found.p99, found.p999, found.max].map(|micros| format!("{micros:.1}"));
        [vec![times.title.to_string()], micros.to_vec(), vec![found.n.to_string()]].concat()
    });
    let head = ["microseconds", "p50", "p99", "p99.9", "max", "count"];
    format!("{}<div id=\"histograms\"></div>", table(&head, &rows.collect::<Vec<_>>()))
}

/// Where the script draws slices.
fn slices(drive: &DriveShown) -> String {
    match drive.slices.len() {
        0 => "<p>The recording holds no slices through the field.</p>".to_string(),
        count => format!(
            "<h3>Slices through the field</h3>\n<p>Each square is one plane of the field: for each \
             of the {SLICES} channels that vary most at that time, the plane with its most unusual cell. All \
             have the same scale.</p>\n\
             <canvas id=\"slices\"></canvas><p id=\"sliced\"></p>\n<p>The page holds {count} sets.</p>"
        ),
    }
}

fn configuration(drive: &DriveShown) -> String {
    let words = drive.words.iter().map(|(key, word)| vec![key.clone(), word.clone()]);
    let words = table(&["key", "value"], &words.collect::<Vec<_>>());
    let board = markup(&drive.board);
    format!("{words}<details><summary>The board's effective values</summary><pre>{board}</pre></details>")
}

/// How exact the curves are, and what they lack.
fn detail(drive: &DriveShown) -> String {
    let width = drive.curves.width();
    let mut said = match width {
        1 => "The curves show every slot.".to_string(),
        _ => format!(
            "Each point of a curve stands for {width} slots ({:.0} ms), of which it shows the smallest and the \
             largest value; 'ganglion log cut' copies a part to a new file, whose page shows more detail.",
            1e3 * drive.curves.cell_s()
        ),
    };
    if drive.left_out > 0 {
        said += &format!(" {} spans, events and goals did not fit on this page.", drive.left_out);
    }
    if drive.unreadable > 0 {
        said += &format!(" {} messages with a status or with slices could not be read.", drive.unreadable);
    }
    said
}

/// What the script draws.
fn data(drive: &DriveShown) -> Value {
    let curves = &drive.curves;
    let plots = drive.plots.iter().map(|plot| {
        let series = plot.series.iter().filter_map(|(name, curve)| {
            let values = curves.values(*curve);
            let used = values.iter().any(|value| !value.is_nan());
            used.then(|| json!({"name": name, "values": packed(&values)}))
        });
        let series: Vec<Value> = series.collect();
        let (title, unit, bad) = (&plot.title, &plot.unit, &plot.bad);
        json!({"section": plot.section, "title": title, "unit": unit, "series": series, "bad": bad,
            "joined": plot.joined})
    });
    json!({
        "seconds": drive.summary.seconds,
        "cells": curves.used(),
        "cell_s": curves.cell_s(),
        "pairs": curves.width() > 1,
        "lanes": drive.lanes,
        "marks": drive.marks,
        "plots": plots.collect::<Vec<_>>(),
        "times": drive.times,
        "path": drive.path.map(|path| path.map(|curve| packed(&curves.values(curve)))),
        "goals": drive.goals,
        "stops": drive.summary.stops,
        "slices": drive.slices,
    })
}

/// Numbers as base64 of little-endian 32-bit floats.
fn packed(values: &[f32]) -> String {
    BASE64.encode(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// SHA-256 of `text`, by the system's own tool.
    fn sha256(text: &str) -> Vec<u8> {
        let tool = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut tool = tool.expect("sha256sum, of coreutils");
        tool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let said = tool.wait_with_output().unwrap().stdout;
        let digit = |byte: u8| (byte as char).to_digit(16).expect("a hexadecimal digit") as u8;
        said[..64].chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }

    #[test]
    fn the_files_of_uplot_are_those_of_its_package() {
        let hex = |text: &str| sha256(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // Digests of the files in uplot-1.6.32.tgz, as in docs/dependencies.md.
        let known = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f";
        assert_eq!(hex(UPLOT), known);
        let known = "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04";
        assert_eq!(hex(UPLOT_LOOKS), known);
        let known = "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd";
        assert_eq!(hex(UPLOT_LICENCE), known);
    }

    #[test]
    fn the_page_names_the_digests_of_its_scripts() {
        let found = [UPLOT, SCRIPT].map(|script| BASE64.encode(&sha256(script)));
        assert_eq!(found, DIGESTS, "after a change to page.js copy the digests on the left into DIGESTS");
        // In HTML, either of these would end or break a script.
        assert!(
            [UPLOT, SCRIPT].iter().all(|script| !script.contains("</script") && !script.contains("<!--"))
        );
    }

    #[test]
    fn numbers_are_packed_lowest_byte_first() {
        assert_eq!(packed(&[1.0]), "AACAPw==");
    }

    #[test]
    fn text_is_escaped_for_html() {
        assert_eq!(markup("<a href='x'>&\"\u{1b}[2K\n"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\\x1b[2K\n");
    }
}
