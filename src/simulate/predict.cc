#include "simulate/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace passing::simulate {
namespace {

constexpr unsigned kIterationsBeside = 3;

// Compute of all hosts is that of the slowest.
train::Schedule slowed(train::Schedule schedule, const Layout& layout) {
  if (!layout.has_straggler()) return schedule;
  const double factor = layout.cluster.compute_factor;
  schedule.forward_seconds *= factor;
  schedule.backward_seconds *= factor;
  for (train::Bucket& each : schedule.buckets) each.ready_seconds *= factor;
  return schedule;
}

double bytes_of(const train::Bucket& bucket) { return sizeof(float) * static_cast<double>(bucket.elements); }

struct Carried {
  std::string link;
  double bytes = 0;
  double seconds = 0;
};

Carried busiest(const Traffic& traffic, const train::Schedule& schedule) {
  std::vector<double> bytes(traffic.links.size());
  for (const train::Bucket& bucket : schedule.buckets) {
    for (const Step& step : traffic.steps_for(bytes_of(bucket))) {
      for (const Flow& flow : step.flows) {
        for (const Use& use : flow.uses) bytes[use.link] += use.times * flow.tensors * bytes_of(bucket);
      }
    }
  }
  Carried most;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double seconds = bytes[i] / traffic.links[i].rate;
    if (seconds > most.seconds * (1 + 1e-9)) most = {traffic.links[i].name, bytes[i], seconds};
  }
  return most;
}

bool of_switch(std::size_t kind) {
  return static_cast<Kind>(kind) == Kind::slots || static_cast<Kind>(kind) == Kind::ingest;
}

// Of one byte through a step.
struct Limit {
  double seconds = 0;
  std::size_t kind = 0;
};

Limit limit_of(const LoadStep& step, const Question& question, bool with_slots) {
  Limit most;
  for (std::size_t i = 0; i < kKinds; ++i) {
    const auto kind = static_cast<Kind>(i);
    if (kind == Kind::slots && !with_slots) continue;
    const double seconds =
        step.tensors[i] / rate_of(kind, question.strategy, question.layout, question.jobs());
    if (seconds > most.seconds) most = {seconds, i};
  }
  return most;
}

Shares shares_of(const Question& question, double compute, double iteration) {
  Shares found{.compute = compute};
  const auto large = loads_of(question.strategy, question.layout, false);
  const auto small = loads_of(question.strategy, question.layout, true);
  for (const train::Bucket& bucket : question.schedule.buckets) {
    for (const LoadStep& step : bytes_of(bucket) <= kWholeBytes ? small : large) {
      const Limit limit = limit_of(step, question, true);
      double& of = static_cast<Kind>(limit.kind) == Kind::bus ? found.in_host
                   : of_switch(limit.kind)                    ? found.switch_limit
                                                              : found.network;
      of += limit.seconds * bytes_of(bucket);
      found.latency += step.latency;
    }
  }
  const double all = found.in_host + found.switch_limit + found.network + found.latency;
  const double scale = all > 0 ? std::max(0.0, iteration - compute) / all : 0;
  for (double* each : {&found.in_host, &found.switch_limit, &found.network, &found.latency}) *each *= scale;
  return found;
}

// The rate at which all else lets a tensor go, times the round trip.
double slots_needed(const Question& question) {
  const LoadStep step = loads_of(question.strategy, question.layout, false).front();
  if (step[Kind::slots] <= 0) return 0;
  const double rate = 1 / limit_of(step, question, false).seconds;
  return std::ceil(rate * question.layout.round_trip() / (4.0 * question.layout.cluster.elements_per_packet));
}

}  // namespace

Level automatic_level(unsigned gpus) { return gpus <= kMostExplicit ? Level::explicit_flows : Level::folded; }

std::string unfit(const Question& question) {
  if (std::string wrong = unfit(question.strategy, question.layout); !wrong.empty()) return wrong;
  const unsigned gpus = question.layout.world();
  if (question.level == Level::explicit_flows && gpus > kMostExplicit) {
    return fmt::format(
        "--level explicit: {} GPUs are more than the {} that are simulated one by one: --level folded, or "
        "auto",
        gpus, kMostExplicit);
  }
  if (question.level == Level::folded && question.layout.has_straggler() && question.jobs() > 1) {
    return fmt::format(
        "a straggler beside other jobs cannot be folded: hosts that wait leave their links to the others, "
        "and one host stands "
        "for all there; --level explicit can, up to {} GPUs",
        kMostExplicit);
  }
  return "";
}

Scenario scenario_of(const Question& question) {
  Scenario made{.traffic = traffic_of(question.strategy, question.layout, question.level, question.jobs()),
                .jobs = {slowed(question.schedule, question.layout)},
                .in_flight = question.layout.cluster.in_flight,
                .iterations = question.jobs() > 1 ? kIterationsBeside : 1};
  for (const train::Schedule& each : question.beside_jobs) made.jobs.push_back(slowed(each, question.layout));
  return made;
}

double Answer::exposed_seconds() const { return std::max(0.0, timing.iteration_seconds - compute_seconds); }

double Answer::scaling_efficiency() const {
  return question.schedule.compute_seconds() / timing.iteration_seconds;
}

Answer answer(const Question& question, const Traffic& traffic, const Timing& timing) {
  const Carried carried = busiest(traffic, question.schedule);
  const double compute = slowed(question.schedule, question.layout).compute_seconds();
  return {.question = question,
          .timing = timing,
          .compute_seconds = compute,
          .busiest_link = carried.link,
          .busiest_link_bytes = carried.bytes,
          .busiest_link_share = timing.iteration_seconds > 0 ? carried.seconds / timing.iteration_seconds : 0,
          .slots_needed = question.strategy.through_switch() ? slots_needed(question) : 0,
          .shares = shares_of(question, compute, timing.iteration_seconds)};
}

}  // namespace passing::simulate
