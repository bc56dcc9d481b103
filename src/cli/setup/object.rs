//! The plan as one JSON object. `schema` changes when a field changes its meaning or is removed.

use serde_json::{Value, json};

use super::finish::State;
use super::words;
use crate::deploy::setup::action::SetupAction;
use crate::deploy::setup::choice::{NoBoard, Origin};
use crate::deploy::setup::found::{Gpu, MachineFacts};
use crate::deploy::setup::proposal::{Change, Proposal};

const SCHEMA: u32 = 1;

/// A plan, and how far setup got with it; `None`: setup failed.
pub(super) fn plan(proposal: &Proposal, state: Option<&State>) -> Value {
    let (board, is_own) = match &proposal.board.origin {
        Origin::Own | Origin::OwnInsteadOf(_) => (proposal.board.loaded.board.name.clone(), true),
        Origin::Named(name) => (name.clone(), false),
        Origin::Only(name) => (name.to_string(), false),
    };
    json!({
        "schema": SCHEMA,
        "machine": machine(&proposal.found),
        "board": { "name": board, "is_own": is_own, "digest": proposal.board.loaded.digest.to_hex().as_str() },
        "changes": proposal.changes.iter().map(change).collect::<Vec<_>>(),
        "notes": proposal.notes.iter().map(words::note).collect::<Vec<_>>(),
        "needs_reboot": proposal.changes.iter().any(|change| change.action.needs_reboot()),
        "state": state,
    })
}

/// A machine for which no board was chosen.
pub(super) fn no_board(found: &MachineFacts, error: &NoBoard) -> Value {
    let candidates = match error {
        NoBoard::Several(names) => names.clone(),
        NoBoard::Unknown
        | NoBoard::Unsound(..)
        | NoBoard::OtherMachine(..)
        | NoBoard::OtherHat(..)
        | NoBoard::Log(_)
        | NoBoard::Inherits(_)
        | NoBoard::Odd(..) => Vec::new(),
    };
    json!({ "schema": SCHEMA, "machine": machine(found), "board": null, "candidates": candidates, "changes": [] })
}

fn machine(found: &MachineFacts) -> Value {
    let hats = found.hats.iter().map(|hat| {
        json!({ "product": hat.product, "vendor": hat.vendor, "product_id": hat.product_id, "uuid": hat.uuid })
    });
    json!({
        "model": found.machine.model,
        "compatible": found.machine.compatible,
        "architecture": found.architecture,
        "system": found.system,
        "hats": hats.collect::<Vec<_>>(),
        "gpu": match found.gpu {
            Gpu::None => None,
            Gpu::Jetson => Some("jetson"),
            Gpu::Card => Some("nvidia"),
        },
    })
}

fn change(change: &Change) -> Value {
    let mut object = match &change.action {
        SetupAction::Write { path, content } => {
            json!({ "do": "write", "path": absolute(path), "content": content })
        }
        SetupAction::Link { path, to } => json!({ "do": "link", "path": absolute(path), "to": to }),
        SetupAction::Set { path, content } => {
            json!({ "do": "set", "path": absolute(path), "content": content })
        }
        SetupAction::Remove { path } => json!({ "do": "remove", "path": absolute(path) }),
        SetupAction::Join { user, group } => json!({ "do": "join", "user": user, "group": group }),
    };
    object["why"] = change.why.into();
    object["needs_reboot"] = change.action.needs_reboot().into();
    object
}

fn absolute(path: &std::path::Path) -> String {
    format!("/{}", path.display())
}
