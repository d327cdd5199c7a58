//! Mutation testing: puts every change in a source file behind a switch. A changed `a + b` becomes
//! `if crate::mutant(17) { a - b } else { a + b }`.
//!
//! The branch of a mutant holds the original source except for its change, so that nested mutants
//! do not multiply: only the last branch is rewritten further. The branch holds a whole chain of
//! operators, because another operator changes the precedence.

use anyhow::{Context, Result, ensure};
use proc_macro2::LineColumn;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, BinOp, Block, Expr, ExprBinary, ExprStruct, ExprUnary, ImplItemConst, ItemConst, Stmt,
};

/// A rewritten file, and the lines, from 1, of each mutant.
#[derive(Debug)]
pub struct Rewritten {
    pub text: String,
    pub lines: BTreeMap<u32, Range<usize>>,
    pub left_out: Vec<u32>,
}

#[derive(Debug)]
enum Edit {
    Choice(Vec<(u32, String)>),
    Insert(u32, String),
}

struct Edits<'a> {
    source: &'a str,
    line_starts: Vec<usize>,
    mutants: BTreeMap<(usize, usize), Vec<(u32, &'a Mutant)>>,
    /// Edits by place, outer ones before inner ones that begin there.
    edits: BTreeMap<(usize, std::cmp::Reverse<usize>), Vec<Edit>>,
    left: BTreeMap<u32, &'a Mutant>,
}

impl<'a> Edits<'a> {
    fn at(&self, line: usize, column: usize) -> usize {
        let start = self.line_starts[line - 1];
        start
            + self.source[start..]
                .chars()
                .take(column)
                .map(char::len_utf8)
                .sum::<usize>()
    }

    fn place(&self, place: Place) -> usize {
        self.at(place.line, place.column - 1)
    }

    fn range(&self, node: &impl Spanned) -> Range<usize> {
        let (LineColumn { line, column }, end) = (node.span().start(), node.span().end());
        self.at(line, column)..self.at(end.line, end.column)
    }

    fn of(&self, range: &Range<usize>) -> Vec<(u32, &'a Mutant)> {
        self.mutants
            .get(&(range.start, range.end))
            .cloned()
            .unwrap_or_default()
    }

    fn changed(&self, whole: &Range<usize>, part: &Range<usize>, replacement: &str) -> String {
        format!(
            "{}{replacement}{}",
            &self.source[whole.start..part.start],
            &self.source[part.end..whole.end]
        )
    }

    fn choose(&mut self, whole: &Range<usize>, choices: Vec<(u32, String)>) {
        self.left
            .retain(|number, _| choices.iter().all(|(choice, _)| choice != number));
        if choices.is_empty() {
            return;
        }
        let edits = self
            .edits
            .entry((whole.start, std::cmp::Reverse(whole.end)))
            .or_default();
        match edits.first_mut() {
            Some(Edit::Choice(before)) => before.extend(choices),
            _ => edits.push(Edit::Choice(choices)),
        }
    }

    fn insert(&mut self, at: usize, number: u32, text: String) {
        self.left.remove(&number);
        let key = (at, std::cmp::Reverse(usize::MAX));
        self.edits
            .entry(key)
            .or_default()
            .push(Edit::Insert(number, text));
    }

    /// Collects the places of the operators that are chained in `expr` without brackets, whatever
    /// their precedence.
    fn operators(&self, expr: &Expr, found: &mut Vec<Range<usize>>) {
        if let Expr::Binary(ExprBinary {
            left, op, right, ..
        }) = expr
        {
            self.operators(left, found);
            found.push(self.range(op));
            self.operators(right, found);
        }
    }

    fn chain(&mut self, expr: &Expr) {
        if holds_let(expr) {
            // A chain with a `let` cannot stand in a branch, but its operands can.
            if let Expr::Binary(ExprBinary { left, right, .. }) = expr {
                self.chain(left);
                self.chain(right);
            }
            return;
        }
        if !matches!(expr, Expr::Binary(_)) {
            return;
        }
        let (whole, mut operators) = (self.range(expr), Vec::new());
        self.operators(expr, &mut operators);
        let choices = operators
            .iter()
            .flat_map(|part| self.of(part).into_iter().map(move |found| (part, found)));
        let choices = choices.map(|(part, (number, mutant))| {
            (number, self.changed(&whole, part, &mutant.replacement))
        });
        self.choose(&whole, choices.collect());
    }
}

fn holds_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary {
            left,
            op: BinOp::And(_),
            right,
            ..
        }) => holds_let(left) || holds_let(right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Edits<'_> {
    /// A function that returns an `impl Iterator` has one return type, so its mutant is an empty
    /// iterator made from the original.
    fn visit_block(&mut self, block: &'ast Block) {
        if let Some(Stmt::Expr(last, None)) = block.stmts.last() {
            let (start, end) = (self.range(&block.stmts[0]).start, self.range(last).end);
            let empty = self
                .of(&(start..end))
                .into_iter()
                .find(|(_, mutant)| mutant.replacement == "::std::iter::empty()");
            if let Some((number, _)) = empty {
                self.insert(
                    end,
                    number,
                    format!(".take(if crate::mutant({number}) {{ 0 }} else {{ usize::MAX }})"),
                );
            }
        }
        visit::visit_block(self, block);
    }

    /// A constant has no switch.
    fn visit_item_const(&mut self, _: &'ast ItemConst) {}

    fn visit_impl_item_const(&mut self, _: &'ast ImplItemConst) {}

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if let Expr::Binary(_) = expr {
            self.chain(expr);
            return self.visit_operands(expr);
        }
        visit::visit_expr(self, expr);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        let (whole, part) = (self.range(unary), self.range(&unary.op));
        let choices = self.of(&part).into_iter();
        let choices = choices
            .map(|(number, mutant)| (number, self.changed(&whole, &part, &mutant.replacement)));
        let choices = choices.collect();
        self.choose(&whole, choices);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_struct(&mut self, found: &'ast ExprStruct) {
        let whole = self.range(found);
        if let Some(rest) = &found.rest {
            let fields: Vec<Range<usize>> =
                found.fields.iter().map(|field| self.range(field)).collect();
            let head = &self.source[whole.start..self.range(&found.path).end];
            let rest = &self.source[self.range(rest)];
            let deleted = self
                .left
                .iter()
                .filter(|(_, mutant)| mutant.genre == "StructField");
            let deleted = deleted.filter_map(|(&number, mutant)| {
                let start = self.place(mutant.span.start);
                fields
                    .iter()
                    .position(|field| field.start == start)
                    .map(|at| (number, at))
            });
            let choices = deleted.map(|(number, at)| {
                let kept = fields.iter().enumerate().filter(|&(place, _)| place != at);
                let kept: String = kept
                    .map(|(_, field)| format!("{}, ", &self.source[field.clone()]))
                    .collect();
                (number, format!("{head} {{ {kept}..{rest} }}"))
            });
            let choices = choices.collect();
            self.choose(&whole, choices);
        }
        visit::visit_expr_struct(self, found);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        let (pattern, whole) = (self.range(&arm.pat), self.range(arm));
        let starts = |mutant: &Mutant| {
            self.place(mutant.span.start) == whole.start && mutant.genre == "MatchArm"
        };
        let deleted = self
            .left
            .iter()
            .find(|(_, mutant)| starts(mutant))
            .map(|(&number, _)| number);
        match &arm.guard {
            None => {
                if let Some(number) = deleted {
                    self.insert(
                        pattern.end,
                        number,
                        format!(" if !crate::mutant({number}) "),
                    );
                }
            }
            Some((_, guard)) => {
                let guard = self.range(guard);
                let mut choices: Vec<(u32, String)> = deleted
                    .map(|number| (number, "false".into()))
                    .into_iter()
                    .collect();
                let guards = self
                    .of(&guard)
                    .into_iter()
                    .filter(|(_, mutant)| mutant.genre == "MatchArmGuard");
                choices.extend(guards.map(|(number, mutant)| (number, mutant.replacement.clone())));
                self.choose(&guard, choices);
            }
        }
        visit::visit_arm(self, arm);
    }
}

impl Edits<'_> {
    /// Visits the operands of a chain, whose operators are done.
    fn visit_operands(&mut self, expr: &Expr) {
        match expr {
            Expr::Binary(ExprBinary { left, right, .. }) => {
                self.visit_operands(left);
                self.visit_operands(right);
            }
            other => self.visit_expr(other),
        }
    }

    fn write(&self, range: Range<usize>, inner: bool, out: &mut Rewritten) {
        let mut at = range.start;
        let own = (range.start, std::cmp::Reverse(range.end));
        for (&(start, std::cmp::Reverse(end)), edits) in &self.edits {
            let inserts = end == usize::MAX;
            let (first, here) = (
                start >= at,
                start <= range.end && (inserts || end <= range.end),
            );
            // An insertion at the very beginning stands before the outermost choice there.
            if !first
                || !here
                || (inner && (start, std::cmp::Reverse(end)) == own)
                || (inner && inserts && start == range.start)
            {
                continue;
            }
            out.text += &self.source[at..start];
            at = start;
            for edit in edits {
                match edit {
                    Edit::Insert(number, text) => out.put(*number, text),
                    Edit::Choice(choices) => {
                        out.text.push('(');
                        for (number, text) in choices {
                            out.put(
                                *number,
                                &format!("if crate::mutant({number}) {{ {text} }} else"),
                            );
                        }
                        out.text += " { ";
                        self.write(start..end, true, out);
                        out.text += " })";
                        at = end;
                    }
                }
            }
        }
        out.text += &self.source[at..range.end];
    }
}

impl Rewritten {
    fn put(&mut self, number: u32, text: &str) {
        self.text.push('\n');
        let first = self.text.lines().count() + 1;
        self.text += text;
        self.text.push('\n');
        self.lines
            .insert(number, first..self.text.lines().count() + 1);
    }
}

pub fn rewrite(source: &str, mutants: &[(u32, &Mutant)]) -> Result<Rewritten> {
    let tree = syn::parse_file(source).context("the file parses")?;
    let line_starts = std::iter::once(0)
        .chain(source.match_indices('\n').map(|(at, _)| at + 1))
        .collect();
    let left = mutants.iter().copied().collect();
    let mut edits = Edits {
        source,
        line_starts,
        mutants: BTreeMap::new(),
        edits: BTreeMap::new(),
        left,
    };
    for &(number, mutant) in mutants {
        let key = (edits.place(mutant.span.start), edits.place(mutant.span.end));
        edits.mutants.entry(key).or_default().push((number, mutant));
    }
    let iterates = |mutant: &Mutant| mutant.replacement.starts_with("::std::iter::");
    let returns = mutants
        .iter()
        .filter(|(_, mutant)| mutant.genre == "FnValue" && !iterates(mutant));
    for &(number, mutant) in returns {
        let returns = format!(
            "if crate::mutant({number}) {{ return {}; }}",
            mutant.replacement
        );
        edits.insert(edits.place(mutant.span.start), number, returns);
    }
    edits.visit_file(&tree);
    let mut out = Rewritten {
        text: String::new(),
        lines: BTreeMap::new(),
        left_out: Vec::new(),
    };
    edits.write(0..source.len(), false, &mut out);
    out.left_out = edits.left.keys().copied().collect();
    Ok(out)
}

pub const FOLDERS: [&str; 4] = ["feed", "arq", "stream", "wire"];

/// A place in a file: line and character, from 1.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Span {
    pub start: Place,
    pub end: Place,
}

/// One mutant: the text in `span` is replaced.
#[derive(Clone, Debug, Deserialize)]
pub struct Mutant {
    pub name: String,
    pub file: String,
    pub genre: String,
    pub replacement: String,
    pub span: Span,
}

impl Mutant {
    pub fn folder(&self) -> &str {
        self.file.split('/').nth(2).unwrap_or_default()
    }
}

/// Lists the mutants of the workspace in `root`; a mutant's number is its index.
pub fn list(root: &Path) -> Result<Vec<Mutant>> {
    let mut command = Command::new("cargo");
    command.args([
        "mutants",
        "--list",
        "--json",
        "-p",
        "ethbcast-transport",
        "--no-default-features",
    ]);
    for folder in FOLDERS {
        command.args(["-f", &format!("transport/src/{folder}/**")]);
    }
    let output = command
        .current_dir(root)
        .output()
        .context("cargo mutants: cargo install cargo-mutants --locked")?;
    ensure!(
        output.status.success(),
        "cargo mutants: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}
