//! Options of several clusters.

use wire::like::{NameCase, NamePattern};

use super::{FIRST, Row, Section};
use crate::config::form::Form;
use crate::config::options::Applies::Now;
use crate::config::plan::ClusterRule;

pub(in crate::config) static CLUSTERS: Section<ClusterRule> = Section {
    name: "clusters",
    doc: "Several clusters behind one Flifo, each with servers of its own: those of `[[servers]]` \
          that name it. In a cluster all is as the sections `[server]`, `[checks]` and `[routing]` \
          say, but for what stands in `[clusters.checks]`, `[clusters.routing]` and \
          `[clusters.server]` behind it; of `[server]` these are `limit`, `rhythm`, `borrow`, \
          `connections_max`, `send_proxy`, `tls` and what begins with `tls_`. The first cluster \
          serves users that name none, and greets clients. Without this list there is one \
          cluster, which is called \"main\".",
    rows: &[
        Row {
            name: "name",
            form: Form::Text {
                allowed: "a word",
                show: |rule| Some(rule.name.clone()).filter(|name| !name.is_empty()),
                set: |rule, text| {
                    super::server::check_name(text)?;
                    text.clone_into(&mut rule.name);
                    Ok(())
                },
            },
            example: Some("\"main\""),
            doc: "What the cluster is called in `[[servers]]` and `[[users]]`, on the console, in \
                  logs and metrics. Needed.",
            elsewhere: &[("ProxySQL", "mysql_replication_hostgroups.comment")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "schemas",
            form: Form::List {
                allowed: "a schema's name, or a pattern of names with % and _ as in LIKE",
                show: |rule| rule.schemas.iter().map(|it| it.text().to_owned()).collect(),
                clear: |rule| rule.schemas.clear(),
                push: |rule, text| {
                    if text.is_empty() {
                        return Err("a schema's name is not empty".to_owned());
                    }
                    rule.schemas.push(NamePattern::new(text, NameCase::Counts));
                    Ok(())
                },
            },
            example: Some("[\"shop\", \"shop_%\"]"),
            doc: "Schemas that lie in this cluster. A pooled client that enters one of them, at \
                  its login or by USE, is served by this cluster from then on; in all other \
                  schemas, by the cluster of its user. The first cluster that names a schema has \
                  it. A client in a transaction cannot enter a schema of another cluster (error \
                  1192).",
            elsewhere: &[("ProxySQL", "mysql_query_rules.schemaname")],
            since: FIRST,
            applies: Now,
        },
    ],
};
