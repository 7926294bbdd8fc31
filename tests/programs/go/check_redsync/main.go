// Redsync: locks that are released, extended, expired and acquired again, also after their holder was killed.
package main

import (
	"context"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"mayfly/tests/programs/programs"
)

var (
	ctx     = context.Background()
	server  = programs.Client()
	mutexes = redsync.New(goredis.NewPool(server))
)

func impatient(name string, expiry time.Duration) *redsync.Mutex {
	return mutexes.NewMutex(name, redsync.WithTries(1), redsync.WithExpiry(expiry))
}

func patient(name string) *redsync.Mutex {
	return mutexes.NewMutex(name, redsync.WithTries(10_000), redsync.WithRetryDelay(10*time.Millisecond), redsync.WithExpiry(programs.Limit))
}

func releasedAndAcquiredAgain() {
	for range 2 {
		first, second := impatient("released", programs.Limit), impatient("released", programs.Limit)
		programs.Require(first.Lock() == nil, "a free lock was not acquired")
		programs.Require(second.Lock() != nil, "a lock was acquired twice")
		ok, err := first.Unlock()
		programs.Require(ok && err == nil, "the lock was not released: %v", err)
		programs.Require(server.Exists(ctx, "released").Val() == 0, "the key of a released lock is left")
	}
}

func extendedAndExpired() {
	first := impatient("extended", time.Second)
	programs.Require(first.Lock() == nil, "a free lock was not acquired")
	ok, err := first.Extend()
	programs.Require(ok && err == nil, "the lock was not extended: %v", err)
	second := patient("extended")
	programs.Require(second.Lock() == nil, "an expired lock was not acquired")
	ok, _ = first.Unlock()
	programs.Require(!ok && server.Exists(ctx, "extended").Val() == 1, "an expired lock was released by its earlier owner")
	ok, err = second.Unlock()
	programs.Require(ok && err == nil, "the lock was not released: %v", err)
}

func oneHolderAtATime() {
	server.Set(ctx, "counter", 0, 0)
	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 20 {
				lock := patient("counter-lock")
				programs.Require(lock.Lock() == nil, "the lock was not acquired")
				count, _ := server.Get(ctx, "counter").Int()
				server.Set(ctx, "counter", count+1, 0)
				ok, err := lock.Unlock()
				programs.Require(ok && err == nil, "the lock was not released: %v", err)
			}
		}()
	}
	group.Wait()
	count := server.Get(ctx, "counter").Val()
	programs.Require(count == "80", "80 increments under the lock made %s", count)
}

func acquiredAfterItsHolderWasKilled() {
	holder := programs.StartWorker()
	programs.Until("the lock is held", func() bool { return server.Exists(ctx, "killed").Val() == 1 })
	holder.Kill()
	lock := patient("killed")
	programs.Require(lock.Lock() == nil, "the lock of a killed holder was not acquired")
	ok, err := lock.Unlock()
	programs.Require(ok && err == nil, "the lock was not released: %v", err)
}

func main() {
	if programs.IsWorker() {
		programs.Require(impatient("killed", 2*time.Second).Lock() == nil, "a free lock was not acquired")
		select {}
	}
	releasedAndAcquiredAgain()
	extendedAndExpired()
	oneHolderAtATime()
	acquiredAfterItsHolderWasKilled()
}
