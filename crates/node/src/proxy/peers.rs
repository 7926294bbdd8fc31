//! Answers from other nodes of the cluster, and heads for other nodes.

use super::reply::{self, Answer};
use super::{Lookup, Node, Usability, usability};
use crate::cluster::{Cluster, Forwarded, Relayed};
use crate::flights::{Lead, Progress};
use crate::metrics::Reply;
use crate::object::{Found, Head, Object, read_all};
use crate::purge::Target;
use crate::rules::directives::Directives;
use crate::rules::key::Key;
use crate::rules::ranges::{Range, Requested};
use crate::rules::status::CacheStatus;
use hyper::Method;
use hyper::header::HeaderMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Node {
    /// Forwards a request to the owner of its key. Returns `None` if this node is the owner, or the
    /// owner does not answer.
    pub(super) async fn by_owner(self: &Arc<Self>, lookup: &Lookup) -> Option<Answer> {
        let cluster = self.cluster.as_ref().filter(|_| !lookup.is_peer)?;
        let is_popular = !lookup.is_head && cluster.is_popular(&lookup.key);
        for is_first in [true, false] {
            let forwarded = Forwarded {
                method: if lookup.is_head {
                    Method::HEAD
                } else {
                    Method::GET
                },
                key: &lookup.key,
                headers: lookup.headers.clone(),
                client: lookup.client,
                accepts_stub: is_first && !lookup.is_head,
                accepts_copy: is_first && is_popular,
            };
            match self.forward(cluster, &forwarded).await? {
                Relayed::Response(response) => {
                    return Some(Answer {
                        response: *response,
                        reply: Reply::Peer,
                        cache: CacheStatus::default(),
                    });
                }
                Relayed::Copy(message, content) => {
                    let copy = cluster.store_copy(&lookup.key, *message, content);
                    return Some(reply::hit(lookup, &copy, self.now_ms(), Reply::Hit));
                }
                Relayed::Stub(message) => {
                    if let Some(head) = cluster.store_stub(&lookup.key, *message)
                        && let Some(answer) = self.by_chunks(cluster, lookup, &head).await
                    {
                        return Some(answer);
                    }
                }
            }
        }
        None
    }

    async fn forward(&self, cluster: &Arc<Cluster>, forwarded: &Forwarded<'_>) -> Option<Relayed> {
        for server in cluster.owners_before(forwarded.key) {
            match cluster.forward(server, forwarded).await {
                Ok(relayed) => return Some(relayed),
                Err(failure) => log::debug!("{}: {server}: {failure:?}", forwarded.key),
            }
        }
        None
    }

    /// Answers with an object in chunks; `None` if fewer than K chunks are available.
    pub(super) async fn by_chunks(
        &self,
        cluster: &Arc<Cluster>,
        lookup: &Lookup,
        head: &Arc<Head>,
    ) -> Option<Answer> {
        let object = cluster.open(&lookup.key, head, lookup.client)?;
        let object = self.with_content(lookup, object).await?;
        let mut answer = reply::hit(lookup, &object, self.now_ms(), Reply::Hit);
        let is_there = answer.response.body_mut().prepare().await.is_ok();
        is_there.then_some(answer)
    }

    /// Returns a coded object in the form needed: in memory for several ranges, or verified to
    /// exist if the origin must confirm it.
    async fn with_content(&self, lookup: &Lookup, object: Object) -> Option<Object> {
        let extent = object.extent.clone()?;
        let is_simple = lookup.wanted.as_ref().is_none_or(Requested::is_single);
        let all = Range {
            start: 0,
            end: object.length,
        };
        if !is_simple {
            let chunks = read_all(extent.read(all)).await.ok()?;
            return Some(Object::new(object.head, chunks));
        }
        if usability(&object, &lookup.directives, self.now_ms()) == Usability::Unusable {
            let first = Range { start: 0, end: 1 };
            read_all(extent.read(first)).await.ok()?;
        }
        Some(object)
    }

    /// Returns the response that was found, after fetching its content if it is stored in chunks;
    /// `None` if the content is lost.
    pub(super) async fn opened(&self, lookup: &Lookup, found: Found) -> Option<Found> {
        match found {
            Found::Object(object) if object.head.coded.is_some() => {
                let cluster = self.cluster.as_ref()?;
                let object = cluster.open(&lookup.key, &object.head, lookup.client)?;
                let opened = Box::pin(self.with_content(lookup, object)).await;
                opened.map(Found::Object)
            }
            found => Some(found),
        }
    }

    /// Returns the object that another request's fetch has confirmed, in the form this request
    /// needs: chunks are read for its own client, and several ranges come from memory. Returns
    /// `None` if it is lost.
    pub(super) async fn shared(&self, lookup: &Lookup, object: Object) -> Option<Object> {
        if object.extent.is_none() {
            return Some(object);
        }
        match self.opened(lookup, Found::Object(object)).await? {
            Found::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Looks for a coded object whose stub this node lacks, because it was evicted or the node came
    /// back without it. Returns an answer if the object is fresh and its chunks are available, and
    /// the object itself if the origin must confirm it first.
    pub(super) async fn adopt(
        self: &Arc<Self>,
        lookup: &Lookup,
        lead: &Lead,
    ) -> (Option<Answer>, Option<Object>) {
        let Some(object) = self.find_in_cluster(lookup).await else {
            return (None, None);
        };
        if usability(&object, &lookup.directives, self.now_ms()) != Usability::Fresh {
            return (None, Some(object));
        }
        let mut answer = reply::hit(lookup, &object, self.now_ms(), Reply::Hit);
        if answer.response.body_mut().prepare().await.is_err() {
            return (None, None);
        }
        lead.publish(Progress::Confirmed(object));
        (Some(answer), None)
    }

    async fn find_in_cluster(self: &Arc<Self>, lookup: &Lookup) -> Option<Object> {
        let cluster = self.cluster.as_ref()?;
        let messages = cluster.find_stubs(&lookup.key).await;
        let heads = messages
            .into_iter()
            .filter_map(|message| cluster.store_stub(&lookup.key, message));
        let heads: Vec<Arc<Head>> = heads.collect();
        let mut heads = heads.iter();
        let head = heads.find(|head| head.selection.matches(&lookup.headers))?;
        let object = cluster.open(&lookup.key, head, lookup.client)?;
        self.with_content(lookup, object).await
    }

    /// Returns true if this node answers for a key.
    pub(super) fn is_owner(&self, key: &Key) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_none_or(|cluster| cluster.owners_before(key).is_empty())
    }

    /// Purges on this node and all others. Returns the number of entries of this node.
    pub(crate) async fn purge(self: &Arc<Self>, target: Target, is_soft: bool) -> Option<usize> {
        let target = match target {
            Target::Url(key) => Target::Url(self.normalised(key)),
            other => other,
        };
        let (purging, here) = (self.clone(), target.clone());
        let purged = tokio::task::spawn_blocking(move || {
            let count = purging.store.purge(&here, is_soft);
            purging.store.sync_removals();
            count
        });
        let count = purged.await.ok()?;
        if let Some(cluster) = &self.cluster {
            cluster.purge_others(&target, is_soft).await;
        }
        self.metrics.purged.fetch_add(count as u64, Relaxed);
        Some(count)
    }

    /// Returns a stored response for another node that reads its chunks itself or copies it.
    pub(crate) async fn fresh_object(&self, key: &Key, headers: &HeaderMap) -> Option<Object> {
        let resource = self.store.get_anywhere(key).await?;
        let wanted = Requested::of(headers);
        let Found::Object(object) = resource.select(headers, wanted.as_ref()) else {
            return None;
        };
        let directives = Directives::of(headers);
        let is_fresh = usability(&object, &directives, self.now_ms()) == Usability::Fresh;
        is_fresh.then_some(object)
    }
}
