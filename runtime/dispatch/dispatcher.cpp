#include "runtime/dispatch/dispatcher.h"

#include <chrono>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace headrace {
namespace {

// From here on a replica's tokens say how fast it is.
constexpr std::int64_t kTellingTokens = 1000;

// An idle link carries an empty message this often, as a part of the stall timeout.
constexpr double kAliveInterval = 0.25;

constexpr double kNanosecondsPerSecond = 1e9;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Dispatcher::Dispatcher(std::vector<ReplicaLink> others, DispatchSettings settings)
    : settings_(settings) {
  replicas_.emplace_back();
  for (ReplicaLink& link : others) {
    replicas_.emplace_back();
    replicas_.back().link = std::move(link);
    replicas_.back().last_heard_ns = now_ns();
  }
}

void Dispatcher::add(std::vector<NewSequence>& sequences, const std::vector<SequenceId>& stops) {
  for (NewSequence& sequence : sequences) pending_.push_back(std::move(sequence));
  sequences.clear();
  for (const SequenceId id : stops) {
    const auto owner = owners_.find(id);
    if (owner == owners_.end()) continue;  // it ended by itself meanwhile
    replicas_[owner->second].stops.push_back(id);
    end(id);
  }
  assign();
}

void Dispatcher::assign() {
  while (!pending_.empty()) {
    const std::size_t index = next_replica();
    if (index == replicas_.size()) return;
    Replica& replica = replicas_[index];
    owners_.emplace(pending_.front().id, index);
    replica.work.push_back(std::move(pending_.front()));
    pending_.pop_front();
    replica.num_outstanding += 1;
  }
}

// The replica that would be through with one more sequence first; none where all have enough.
std::size_t Dispatcher::next_replica() const {
  if (replicas_.size() == 1) return 0;
  bool rates_known = true;
  for (const Replica& replica : replicas_) {
    rates_known = rates_known && replica.num_tokens >= kTellingTokens;
  }
  std::size_t best = replicas_.size();
  double best_load = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& replica = replicas_[i];
    if (replica.num_outstanding >= settings_.max_outstanding) continue;
    const double rate = rates_known ? static_cast<double>(replica.num_tokens) : 1.0;
    const double load = (replica.num_outstanding + 1) / rate;
    if (load >= best_load) continue;
    best = i;
    best_load = load;
  }
  return best;
}

void Dispatcher::take_own(std::vector<NewSequence>& sequences, std::vector<SequenceId>& stops) {
  Replica& own = replicas_.front();
  for (NewSequence& sequence : own.work) sequences.push_back(std::move(sequence));
  own.work.clear();
  stops.insert(stops.end(), own.stops.begin(), own.stops.end());
  own.stops.clear();
}

void Dispatcher::end(SequenceId id) {
  const auto owner = owners_.find(id);
  if (owner == owners_.end()) return;
  replicas_[owner->second].num_outstanding -= 1;
  owners_.erase(owner);
}

void Dispatcher::note(const SequenceEvent& event, Replica& replica) {
  if (event.has_token) replica.num_tokens += 1;
  if (event.finish != FinishReason::kNone) end(event.id);
}

void Dispatcher::note_own(const std::vector<SequenceEvent>& events) {
  for (const SequenceEvent& event : events) note(event, replicas_.front());
  assign();
}

bool Dispatcher::exchange(std::vector<SequenceEvent>& events) {
  bool came = false;
  for (std::size_t i = 1; i < replicas_.size(); ++i) {
    came = take_reports(replicas_[i], events) || came;
  }
  if (came) assign();
  for (std::size_t i = 1; i < replicas_.size(); ++i) send_work(replicas_[i]);
  return came;
}

bool Dispatcher::take_reports(Replica& replica, std::vector<SequenceEvent>& events) {
  bool came = false;
  while (const auto bytes = replica.link.reports->try_receive()) {
    ReportMessage report = decode_report_message(*bytes);
    replica.link.reports->release();
    replica.last_heard_ns = now_ns();
    replica.done = report.done;
    replica.view = std::move(report.view);
    for (SequenceEvent& event : report.events) {
      note(event, replica);
      events.push_back(std::move(event));
    }
    came = true;
  }
  const double silent_s =
      static_cast<double>(now_ns() - replica.last_heard_ns) / kNanosecondsPerSecond;
  if (settings_.stall_timeout_s > 0 && silent_s > settings_.stall_timeout_s &&
      replica.done != WorkOrder::kFinish) {
    throw std::runtime_error("waited " +
                             std::to_string(static_cast<int>(settings_.stall_timeout_s)) +
                             " s (--stall-timeout) to hear from " + replica.link.name);
  }
  return came;
}

// At most one message at a time: what does not fit goes with the next.
void Dispatcher::send_work(Replica& replica) {
  const double unsent_s =
      static_cast<double>(now_ns() - replica.last_sent_ns) / kNanosecondsPerSecond;
  const bool alive_due =
      settings_.stall_timeout_s > 0 && unsent_s > settings_.stall_timeout_s * kAliveInterval;
  if (replica.work.empty() && replica.stops.empty() && replica.order_sent && !alive_due) return;
  if (replica.done == WorkOrder::kFinish) return;
  const auto buffer = replica.link.work->try_acquire();
  if (!buffer) return;
  WorkMessage message;
  message.order = replica.order;
  message.stops.swap(replica.stops);
  std::size_t size = work_header_bytes(message.stops.size());
  while (!replica.work.empty()) {
    size += encoded_bytes(replica.work.front());
    if (size > buffer->size()) break;
    message.sequences.push_back(std::move(replica.work.front()));
    replica.work.pop_front();
  }
  bytes_.clear();
  encode(message, bytes_);
  if (bytes_.size() > buffer->size()) {
    throw std::logic_error("a work message of " + std::to_string(bytes_.size()) +
                           " bytes does not fit " + std::to_string(buffer->size()));
  }
  std::memcpy(buffer->data(), bytes_.data(), bytes_.size());
  replica.link.work->post(bytes_.size());
  replica.order_sent = true;
  replica.last_sent_ns = now_ns();
}

void Dispatcher::give(WorkOrder order) {
  for (std::size_t i = 1; i < replicas_.size(); ++i) {
    if (replicas_[i].order >= order) continue;
    replicas_[i].order = order;
    replicas_[i].order_sent = false;
  }
}

bool Dispatcher::all_done(WorkOrder order) const {
  for (std::size_t i = 1; i < replicas_.size(); ++i) {
    if (replicas_[i].done < order) return false;
  }
  return true;
}

std::vector<ReplicaView> Dispatcher::views() const {
  std::vector<ReplicaView> views;
  for (std::size_t i = 1; i < replicas_.size(); ++i) views.push_back(replicas_[i].view);
  return views;
}

std::size_t max_work_message_bytes(int max_model_len) {
  constexpr std::size_t kParams =
      256 + std::size_t{kMaxLogitBias} * 8 + std::size_t{kMaxStopIds} * 8;
  constexpr std::size_t kStops = std::size_t{64} << 10;
  constexpr std::size_t kSmall = std::size_t{256} << 10;
  return static_cast<std::size_t>(max_model_len) * sizeof(TokenId) + kParams + kStops + kSmall;
}

std::size_t max_report_message_bytes(std::size_t max_result_bytes, int num_stages) {
  return report_header_bytes(static_cast<std::size_t>(num_stages)) + 2 * max_result_bytes;
}

}  // namespace headrace
