# frozen_string_literal: true

# Jobs of the check of Sidekiq, loaded by the check and by the workers.

require "sidekiq"
require "sidekiq/api"
require "sidekiq/scheduled"

SERVER = { url: "redis://127.0.0.1:#{ENV.fetch('PORT')}/1" }.freeze
Sidekiq.configure_client { |config| config.redis = SERVER }
Sidekiq.configure_server do |config|
  config.redis = SERVER
  config.average_scheduled_poll_interval = 1
end
# The first look for due jobs comes after this time in seconds, 10 by default.
Sidekiq::Scheduled::Poller.send(:remove_const, :INITIAL_WAIT)
Sidekiq::Scheduled::Poller::INITIAL_WAIT = 0

def runs(name)
  Sidekiq.redis { |server| server.incr("runs:#{name}") }
end

# Appends its argument to the list `done`.
class Append
  include Sidekiq::Worker

  def perform(value)
    Sidekiq.redis { |server| server.rpush("done", value) }
  end
end

# Fails in its first run.
class FailsOnce
  include Sidekiq::Worker
  sidekiq_options retry: 3
  sidekiq_retry_in { 1 }

  def perform
    raise "first run" if runs("fails") == 1

    Append.new.perform("retried")
  end
end

# Does not end in its first run.
class Held
  include Sidekiq::Worker

  def perform
    sleep if runs("held") == 1
    Append.new.perform("held")
  end
end
