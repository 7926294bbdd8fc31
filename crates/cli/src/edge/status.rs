//! `mayfly edge status`: prints the status of a running node.

use super::serve::token;
use anyhow::{Result, anyhow};
use clap::Args;
use node::admin::client::{self, Place};
use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `mayfly edge status`.
#[derive(Args)]
pub struct Arguments {
    /// Address of the node for operators (its --admin)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    admin: SocketAddr,
    /// File with the token that the node demands (its --admin-token-file)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Connect with TLS, to a node with a certificate of an authority in this file, in PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Name in the node's certificate [default: the address]
    #[arg(long, value_name = "NAME", requires = "ca")]
    name: Option<String>,
}

impl Arguments {
    /// Prints the status.
    pub fn run(&self) -> Result<()> {
        let tls = self.ca.clone();
        let place = Place {
            address: self.admin,
            token: token("token", self.token_file.as_deref())?,
            tls: tls.map(|authorities| (authorities, self.name.clone())),
        };
        let text = client::status(&place).map_err(|error| anyhow!(error))?;
        stdout().write_all(text.as_bytes())?;
        Ok(())
    }
}
