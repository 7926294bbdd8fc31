//! Names of the rules.

/// Rules that a test can disable, to show that the search finds the failures they prevent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A fence counts from the time a beat was sent, not from the arrival of the reply.
    FenceFromSending,
    /// A replica does not campaign while a fence may still last.
    Silence,
    /// A campaign is guarded by the last beat that the replica saw.
    BeatGuard,
    /// A replica that has promised does not campaign.
    KeepPromise,
    /// A replica whose campaign is in doubt does not promise.
    NoPromiseInDoubt,
    /// A replica that starts must assume a campaign in doubt.
    #[cfg(test)]
    DoubtAfterStart,
    /// A replica whose entry is in doubt counts as a member.
    DoubtfulEntry,
    /// A replica enters only when it has all acknowledged writes.
    EnterCaughtUp,
    /// A write is acknowledged only when all members have it.
    AllMembers,
    /// A primary that starts again begins a new term before it serves.
    ResumeFirst,
    /// A primary that lost writes in a restart begins a term alone only if it wrote in the last
    /// term.
    OnlyCopy,
    /// Replicas follow a primary only in a term that it has begun.
    FollowBegun,
    /// A primary stops serving before it hands over its shard.
    YieldFirst,
    /// A replica that lost writes in a restart does not campaign before it has caught up.
    Complete,
    /// A map that was read before the term began does not count.
    FreshMap,
    /// A source holds commands until it has read the outcome of the move.
    HoldUntilOutcome,
    /// A commit is guarded by the source's record.
    #[cfg(test)]
    SourceGuard,
    /// A commit is guarded by the target's record.
    #[cfg(test)]
    TargetGuard,
    /// A commit is guarded by the move.
    #[cfg(test)]
    MoveGuard,
}
