//! `ethbcast topo`: describes, draws, checks and imports network topologies.

use crate::args::{DrawingArgs, ImportArgs, TopoArgs, TopoCommand};
use crate::exit::{Code, Failure, WithCode, report};
use crate::inputs::{host_by_slurm, print_notes, read_text, read_topology, refused};
use ethbcast_planning::draw;
use ethbcast_planning::draw::Overlay;
use ethbcast_planning::topology::{Imported, Topology, nodeset, slurm};
use std::path::Path;

pub fn run(args: TopoArgs) -> anyhow::Result<()> {
    match args.command {
        TopoCommand::Show { file, drawing } => {
            let overlay = Overlay {
                title: &file.display().to_string(),
                ..Overlay::default()
            };
            report(drawn(&read_topology(&file)?, &overlay, drawing).trim_end())
        }
        TopoCommand::Import(args) => import(&args),
        TopoCommand::Check { file } => report(&described(
            &file.display().to_string(),
            &read_topology(&file)?,
        )),
    }
}

pub fn drawn(topology: &Topology, overlay: &Overlay, drawing: DrawingArgs) -> String {
    match drawing {
        DrawingArgs { dot: true, .. } => draw::dot(topology, overlay),
        DrawingArgs { svg: true, .. } => draw::svg(topology, overlay),
        _ => draw::text(topology, overlay),
    }
}

fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let Imported { topology, notes } = import_from(args)?;
    print_notes(&notes);
    let text = topology.to_toml();
    match &args.out {
        None => report(text.trim_end()),
        Some(path) => write(path, &text),
    }
}

fn import_from(args: &ImportArgs) -> anyhow::Result<Imported> {
    let name = |path: &Path| {
        if path == Path::new("-") {
            "stdin".to_owned()
        } else {
            path.display().to_string()
        }
    };
    if let Some(path) = &args.source.slurm {
        let text = read_text(path, "Slurm topology file")?;
        let parse = if slurm::looks_like_topology_yaml(&text) {
            slurm::parse_yaml
        } else {
            slurm::parse
        };
        return parse(&text, &name(path)).code(Code::Usage);
    }
    if let Some(path) = &args.source.slurm_addr {
        return slurm::from_topology_addrs(&read_text(path, "list of addresses")?, &name(path))
            .code(Code::Usage);
    }
    let folder = args.source.lldp.as_ref().ok_or_else(|| {
        Failure::new(
            Code::Usage,
            "nothing to import: say where from with --slurm FILE, --slurm-addr FILE or --lldp DIR",
        )
    })?;
    Ok(Topology::load_lldp(folder, args.interface.as_deref()).map_err(refused)?)
}

pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let failure = |error| {
        Failure::new(
            Code::System,
            format!("cannot write {}: {error}", path.display()),
        )
    };
    Ok(std::fs::write(path, text).map_err(failure)?)
}

fn and_blocked(topology: &Topology) -> String {
    match topology.blocked().len() {
        0 => String::new(),
        blocked => format!(", and {blocked} that spanning tree blocks"),
    }
}

fn described(name: &str, topology: &Topology) -> String {
    let mut lines = vec![
        format!("{name} is a tree of switches with every host on one of them"),
        format!(
            "hosts     {}  {}",
            topology.hosts().len(),
            nodeset::fold(topology.hosts())
        ),
        format!(
            "switches  {}  {}",
            topology.switches().len(),
            nodeset::fold(topology.switches())
        ),
        format!(
            "cables    {} between switches{}",
            topology.cables().len(),
            and_blocked(topology)
        ),
        format!(
            "depth     {} (levels of switches, hung from the middle)",
            draw::levels(topology)
        ),
    ];
    let pairs = topology.pair_lines().into_iter();
    lines.extend(pairs.map(|pair| format!("pair      {pair}")));
    if let Some(host) = host_by_slurm(topology) {
        let switch = &topology.switches()[topology.switch_of(host)];
        lines.push(format!(
            "this host {} on {switch}, says SLURM_TOPOLOGY_ADDR",
            topology.hosts()[host]
        ));
    }
    lines.join("\n")
}
