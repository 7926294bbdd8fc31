// Package programs has the parts that the checks of Go programs share: the server, a wait with a limit, and worker processes.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// Address of the server.
var Address = "127.0.0.1:" + os.Getenv("PORT")

// Limit separates a program that hangs from a slow machine.
const Limit = 60 * time.Second

// Client returns a connection to the server.
func Client() *redis.Client { return redis.NewClient(&redis.Options{Addr: Address}) }

// Require ends the check unless `condition` holds.
func Require(condition bool, format string, values ...any) {
	if !condition {
		fmt.Printf(format+"\n", values...)
		os.Exit(1)
	}
}

// Until evaluates `condition` until it holds.
func Until(what string, condition func() bool) {
	for limit := time.Now().Add(Limit); !condition(); time.Sleep(20 * time.Millisecond) {
		Require(time.Now().Before(limit), "not within %v: %s", Limit, what)
	}
}

// Worker is the running program, started again with the argument `worker`.
type Worker struct{ command *exec.Cmd }

// StartWorker starts a worker process.
func StartWorker() Worker {
	command := exec.Command(os.Args[0], "worker")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	err := command.Start()
	Require(err == nil, "the worker does not start: %v", err)
	return Worker{command}
}

// Kill ends the worker as a crash does.
func (worker Worker) Kill() {
	_ = worker.command.Process.Kill()
	_ = worker.command.Wait()
}

// IsWorker reports whether this process is a worker.
func IsWorker() bool { return len(os.Args) > 1 && os.Args[1] == "worker" }
