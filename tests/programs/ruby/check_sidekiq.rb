# frozen_string_literal: true

# Sidekiq: jobs, bulk, scheduled and retried jobs, a worker that is stopped in a job, and one that is killed.

require_relative "worker"

# Separates a program that hangs from a slow machine.
LIMIT_S = 60

def until_true(what)
  limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT_S
  until yield
    raise "not within #{LIMIT_S} s: #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit

    sleep 0.02
  end
end

def start_worker
  # A worker that is stopped gives its jobs this time, in seconds. It is longer than a fetch waits: Sidekiq returns jobs to the
  # queue before it ends its fetches, one of which would take them.
  spawn("sidekiq", "--require", "./worker.rb", "--concurrency", "2", "--timeout", "4", chdir: __dir__)
end

def stop(worker, signal)
  Process.kill(signal, worker)
  Process.wait(worker)
end

def done?(*values)
  (values - Sidekiq.redis { |server| server.lrange("done", 0, -1) }).empty?
end

worker = start_worker
Append.perform_async("one")
Sidekiq::Client.push_bulk("class" => Append, "args" => (1..20).map { |i| ["bulk#{i}"] })
until_true("the jobs ran") { done?("one", *(1..20).map { |i| "bulk#{i}" }) }

Append.perform_in(1, "scheduled")
raise "the job is not scheduled" unless Sidekiq::ScheduledSet.new.size == 1

FailsOnce.perform_async
until_true("the scheduled and the retried job ran") { done?("scheduled", "retried") }
until_true("both sets are empty") { Sidekiq::ScheduledSet.new.size.zero? && Sidekiq::RetrySet.new.size.zero? }

# A worker that is stopped returns the jobs that do not end to their queue.
Held.perform_async
until_true("the job has begun") { Sidekiq.redis { |server| server.exists?("runs:held") } }
stop(worker, "TERM")
raise "the job was not returned to the queue" unless Sidekiq::Queue.new.size == 1

worker = start_worker
until_true("the returned job ran") { done?("held") }

# A job that is waiting or scheduled when the worker is killed is run by the next one.
stop(worker, "KILL")
Append.perform_async("waiting")
Append.perform_in(1, "scheduled again")
worker = start_worker
until_true("the jobs of the killed worker ran") { done?("waiting", "scheduled again") }
raise "jobs are left" unless Sidekiq::Queue.new.size.zero? && Sidekiq::ScheduledSet.new.size.zero?

stop(worker, "KILL")
