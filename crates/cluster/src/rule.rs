//! Names of the rules.

/// Rules that a test can remove, to show that the search finds what they prevent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A fence counts from the sending of a beat, not from the arrival of its reply.
    FenceFromSending,
    /// A campaign waits until no fence can last.
    Silence,
    /// A campaign is guarded by the last beat that was seen.
    BeatGuard,
    /// A replica that has promised does not campaign.
    KeepPromise,
    /// A replica whose campaign is in doubt does not promise.
    NoPromiseInDoubt,
    /// A replica that starts may have a campaign in doubt.
    #[cfg(test)]
    DoubtAfterStart,
    /// A replica whose entry is in doubt is a member.
    DoubtfulEntry,
    /// A replica enters when it has all acknowledged writes.
    EnterCaughtUp,
    /// A write is acknowledged when all members have it.
    AllMembers,
    /// A primary that starts again begins a new term before it serves.
    ResumeFirst,
    /// A primary that has lost writes by a start begins a term alone only if it wrote in the last.
    OnlyCopy,
    /// Replicas follow a primary only in a term that it has begun.
    FollowBegun,
    /// A primary stops serving before it hands its shard over.
    YieldFirst,
    /// A replica that has lost writes by a start does not campaign before it has caught up.
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
