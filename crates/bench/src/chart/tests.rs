//! Charts of odd data are whole, and show what they were given.

use super::*;

fn point(x: f64, y: f64) -> Point {
    Point { x, y, range: Some((y * 0.9, y * 1.1)) }
}

fn lines(points: &[Point]) -> Chart {
    let series = |name: &str, look, marks| Series {
        name: name.to_owned(),
        look: Look(look),
        points: points.to_vec(),
        marks,
    };
    Chart {
        title: "Throughput".into(),
        note: String::new(),
        plot: Plot::Lines(Lines {
            x: Axis { label: "clients".into(), kind: ScaleKind::Log, ticks: vec![1.0, 8.0, 64.0] },
            y: Axis::new("statements a second", ScaleKind::Linear),
            series: vec![series("a", 0, Marks::Points), series("b", 1, Marks::Band)],
        }),
    }
}

/// A minimal check that elements are closed and attributes quoted: a page must not break.
fn is_whole(svg: &str) -> bool {
    let opened = svg.matches('<').count() - svg.matches("</").count() - svg.matches("/>").count();
    opened == svg.matches("</").count() && svg.matches('"').count().is_multiple_of(2)
}

#[test]
fn lines_have_their_marks_ranges_legend_and_units() {
    let svg = lines(&[point(1.0, 100.0), point(8.0, 400.0), point(64.0, 300.0)]).svg();
    assert!(is_whole(&svg), "{svg}");
    assert_eq!(svg.matches("class=\"point c0\"").count(), 3);
    assert_eq!(svg.matches("class=\"whisker c0\"").count(), 3);
    assert_eq!(svg.matches("class=\"band c1\"").count(), 1);
    assert_eq!(svg.matches("class=\"line c").count(), 4, "two in the plot, two in the legend");
    assert!(svg.contains("statements a second") && svg.contains(">clients<"));
}

#[test]
fn more_throughput_is_drawn_higher() {
    let svg = lines(&[point(1.0, 100.0), point(8.0, 400.0)]).svg();
    let circle =
        |text: &str| text.split("cy=\"").nth(1).and_then(|it| it.split('"').next()?.parse().ok());
    let marks: Vec<f64> = svg.split("class=\"point c0\"").skip(1).filter_map(circle).collect();
    assert!(marks.len() == 2 && marks[1] < marks[0], "{marks:?}");
}

#[test]
fn the_figures_of_lines_are_the_points() {
    let grid = lines(&[point(1.0, 100.0), point(8.0, 400.0)]).figures();
    assert_eq!(grid.titles, ["clients", "a", "b"]);
    assert_eq!(grid.rows[1], ["8", "400 (360 – 440)", "400 (360 – 440)"]);
}

#[test]
fn names_cannot_break_out_of_a_chart() {
    let mut chart = lines(&[point(1.0, 1.0)]);
    chart.title = "\"><script>alert(1)</script>".into();
    if let Plot::Lines(lines) = &mut chart.plot {
        lines.series[0].name = "<b>\u{0}'&".into();
    }
    let svg = chart.svg();
    assert!(!svg.contains("<script") && !svg.contains("<b>") && !svg.contains('\u{0}'), "{svg}");
    assert!(svg.contains("&lt;b&gt; &#39;&amp;"), "{svg}");
}

#[test]
fn nothing_and_nonsense_can_be_drawn() {
    for points in [vec![], vec![point(0.0, 0.0)], vec![point(f64::NAN, f64::INFINITY)]] {
        let svg = lines(&points).svg();
        assert!(is_whole(&svg) && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
    let bars = Bars { x: Axis::new("µs", ScaleKind::Linear), pieces: vec![], rows: vec![] };
    let dots = Dots { x: Axis::new("µs", ScaleKind::Log), series: vec![], rows: vec![] };
    for plot in [Plot::Bars(bars), Plot::Dots(dots)] {
        let svg = Chart { title: "t".into(), note: String::new(), plot }.svg();
        assert!(is_whole(&svg) && !svg.contains("NaN"), "{svg}");
    }
}

#[test]
fn pieces_of_a_bar_follow_each_other_and_sum_up() {
    let piece = |name: &str, fill| Piece { name: name.into(), look: Look(0), fill };
    let row = BarRow { label: "direct".into(), heading: Some("8".into()), lengths: vec![3.0, 1.0] };
    let bars = Bars {
        x: Axis::new("µs a statement", ScaleKind::Linear),
        pieces: vec![piece("user", Fill::Full), piece("system", Fill::Striped)],
        rows: vec![row],
    };
    let chart = Chart { title: "CPU".into(), note: String::new(), plot: Plot::Bars(bars) };
    assert_eq!(chart.figures().rows, [["8, direct", "3", "1", "4"]]);
    let svg = chart.svg();
    let rects = svg.split("<rect ").skip(3).map(|rect| {
        let of = |name: &str| -> f64 {
            let rest = rect.split(&format!(" {name}=\"")).nth(1).expect("has it");
            rest.split('"').next().and_then(|it| it.parse().ok()).expect("is a number")
        };
        (of("x"), of("width"))
    });
    let [(x, width), (next, half)] = rects.collect::<Vec<_>>()[..] else { panic!("{svg}") };
    assert!((x + width - next).abs() < 0.11 && (width - 3.0 * half).abs() < 0.5, "{svg}");
}

#[test]
fn dots_show_what_each_row_has() {
    let dots = Dots {
        x: Axis::new("page faults", ScaleKind::Log),
        series: vec![("seed".into(), Look(0)), ("here".into(), Look(1))],
        rows: vec![
            DotRow {
                label: "small".into(),
                dots: vec![None, Some(Dot { value: 3.0, range: None })],
            },
            DotRow {
                label: "large".into(),
                dots: vec![
                    Some(Dot { value: 2e4, range: Some((1e4, 3e4)) }),
                    Some(Dot { value: 9.0, range: None }),
                ],
            },
        ],
    };
    let chart = Chart { title: "Faults".into(), note: String::new(), plot: Plot::Dots(dots) };
    let svg = chart.svg();
    assert_eq!(svg.matches("class=\"point").count(), 3);
    assert_eq!(svg.matches("class=\"whisker").count(), 1);
    let want = ["large", "20\u{202f}000 (10\u{202f}000 – 30\u{202f}000)", "9"];
    assert_eq!(chart.figures().rows[1], want);
}
