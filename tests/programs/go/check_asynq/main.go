// Asynq: results, delayed, retried and unique tasks, and a worker that is killed in a task.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"mayfly/tests/programs/programs"
)

var (
	ctx       = context.Background()
	server    = programs.Client()
	option    = asynq.RedisClientOpt{Addr: programs.Address}
	client    = asynq.NewClient(option)
	inspector = asynq.NewInspector(option)
)

const lease = "asynq:{default}:lease"

func double(_ context.Context, task *asynq.Task) error {
	var number int
	if _, err := fmt.Sscan(string(task.Payload()), &number); err != nil {
		return err
	}
	_, err := task.ResultWriter().Write([]byte(fmt.Sprint(2 * number)))
	return err
}

func failOnce(context.Context, *asynq.Task) error {
	if server.Incr(ctx, "runs:fails").Val() == 1 {
		return errors.New("first run")
	}
	return nil
}

func hold(context.Context, *asynq.Task) error {
	if server.Incr(ctx, "runs:held").Val() == 1 {
		select {}
	}
	return nil
}

func work() {
	config := asynq.Config{
		Concurrency:              4,
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 200 * time.Millisecond },
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc("double", double)
	mux.HandleFunc("fails", failOnce)
	mux.HandleFunc("held", hold)
	err := asynq.NewServer(option, config).Run(mux)
	programs.Require(err == nil, "the worker ended: %v", err)
}

func enqueue(name, payload string, options ...asynq.Option) *asynq.TaskInfo {
	options = append(options, asynq.Retention(time.Hour))
	info, err := client.Enqueue(asynq.NewTask(name, []byte(payload)), options...)
	programs.Require(err == nil, "%s was not enqueued: %v", name, err)
	return info
}

func result(task *asynq.TaskInfo) string {
	var info *asynq.TaskInfo
	programs.Until("a task of kind "+task.Type+" is completed", func() bool {
		info, _ = inspector.GetTaskInfo("default", task.ID)
		return info != nil && info.State == asynq.TaskStateCompleted
	})
	return string(info.Result)
}

func check() {
	worker := programs.StartWorker()
	var tasks []*asynq.TaskInfo
	for number := range 50 {
		tasks = append(tasks, enqueue("double", fmt.Sprint(number)))
	}
	for number, task := range tasks {
		programs.Require(result(task) == fmt.Sprint(2*number), "a task has a wrong result")
	}
	delayed := enqueue("double", "7", asynq.ProcessIn(time.Second))
	programs.Require(delayed.State == asynq.TaskStateScheduled, "the delayed task is %v", delayed.State)
	programs.Require(result(delayed) == "14", "the delayed task has a wrong result")
	result(enqueue("fails", "", asynq.MaxRetry(1)))
	programs.Require(server.Get(ctx, "runs:fails").Val() == "2", "the failed task did not run again")

	// The lock of a unique task is released when the task is completed.
	unique := asynq.Unique(time.Hour)
	first := enqueue("double", "1", unique, asynq.ProcessIn(time.Second))
	_, err := client.Enqueue(asynq.NewTask("double", []byte("1")), unique)
	programs.Require(errors.Is(err, asynq.ErrDuplicateTask), "a unique task was enqueued twice: %v", err)
	result(first)
	result(enqueue("double", "1", unique))

	held := enqueue("held", "", asynq.MaxRetry(1))
	programs.Until("the task has begun", func() bool { return server.Exists(ctx, "runs:held").Val() == 1 })
	worker.Kill()
	score, err := server.ZScore(ctx, lease, held.ID).Result()
	programs.Require(err == nil, "the task of the killed worker has no lease: %v", err)
	// The state when two minutes have passed: a lease lasts 30 seconds, and is honoured for 30 more.
	server.ZAddXX(ctx, lease, redis.Z{Score: score - 120, Member: held.ID})
	worker = programs.StartWorker()
	result(held)
	programs.Require(result(enqueue("double", "8")) == "16", "the new worker does not work")
	programs.Require(server.ZCard(ctx, lease).Val() == 0, "a lease is left")
	worker.Kill()
}

func main() {
	if programs.IsWorker() {
		work()
	} else {
		check()
	}
}
