#include "controller/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace passing::controller {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily family(const char* name, const char* help, MetricType type) {
  MetricFamily result;
  result.name = name;
  result.help = help;
  result.type = type;
  return result;
}

void add(MetricFamily& to, double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.counter.value = value;
  metric.gauge.value = value;
  to.metric.push_back(std::move(metric));
}

}  // namespace

std::string metrics_text(const dataplane::Totals& totals, const std::vector<JobView>& jobs) {
  const dataplane::Counters& c = totals.counters;
  std::vector<MetricFamily> families;
  const auto counter = [&](const char* name, const char* help, std::uint64_t value) {
    families.push_back(family(name, help, MetricType::Counter));
    add(families.back(), static_cast<double>(value));
  };
  counter("passing_packets_in_total", "Packets received by the dataplane", c.packets_in);
  counter("passing_bytes_in_total", "Bytes received, headers of PASSING included", c.bytes_in);
  counter("passing_packets_out_total", "Packets sent", c.packets_out);
  counter("passing_bytes_out_total", "Bytes sent", c.bytes_out);
  counter("passing_retransmissions_total", "Contributions that members sent again", c.retransmissions);
  counter("passing_send_failures_total", "Packets that the kernel refused to send", totals.send_failures);
  counter("passing_uncut_trains_total",
          "Several packets in one, dropped: a way to the switch does not cut trains", totals.uncut_trains);
  families.push_back(family("passing_program_seconds_total", "Run time of programs in the kernel (--profile)",
                            MetricType::Counter));
  add(families.back(), totals.program_seconds);
  counter("passing_program_runs_total", "Runs of programs in the kernel (--profile)", totals.program_runs);
  counter("passing_adds_total", "Contributions added to a slot", c.adds);
  counter("passing_results_total", "Chunks completed", c.results);
  counter("passing_results_again_total", "Results sent again to one member", c.results_again);
  counter("passing_duplicates_total", "Contributions that were there already", c.duplicates);
  counter("passing_notices_total", "Slots poisoned", c.notices);
  counter("passing_notices_again_total", "Notices sent again to one member", c.notices_again);
  counter("passing_status_answers_total", "Status requests answered", c.status_answers);
  counter("passing_system_calls_total", "Socket calls of the dataplane", totals.system_calls);

  families.push_back(family("passing_drops_total", "Packets dropped, by reason", MetricType::Counter));
  for (std::size_t i = 0; i < wire::kDropReasons; ++i) {
    add(families.back(), static_cast<double>(c.drops[i]),
        {{"reason", wire::to_string(static_cast<wire::Drop>(i))}});
  }
  families.push_back(family("passing_slots", "Slots of the switch", MetricType::Gauge));
  add(families.back(), totals.slots, {{"state", "all"}});
  add(families.back(), totals.free_slots, {{"state", "free"}});
  families.push_back(family("passing_jobs", "Jobs known to the controller", MetricType::Gauge));
  add(families.back(), static_cast<double>(jobs.size()));

  MetricFamily in_use =
      family("passing_job_chunks_held", "Chunks that slots of the job hold", MetricType::Gauge);
  MetricFamily completed =
      family("passing_job_chunks_total", "Chunks of the job completed in this epoch", MetricType::Counter);
  MetricFamily lag = family("passing_member_lag_chunks", "Filling chunks that lack the member's contribution",
                            MetricType::Gauge);
  MetricFamily waiting =
      family("passing_job_waiting_seconds", "How long the oldest chunk has waited", MetricType::Gauge);
  for (const JobView& job : jobs) {
    add(in_use, job.slots_in_use, {{"job", job.name}});
    add(completed, static_cast<double>(job.completed), {{"job", job.name}});
    add(waiting, job.waiting_seconds, {{"job", job.name}});
    for (std::size_t m = 0; m < job.lag.size(); ++m) {
      add(lag, static_cast<double>(job.lag[m]), {{"job", job.name}, {"member", std::to_string(m)}});
    }
  }
  for (MetricFamily* each : {&in_use, &completed, &lag, &waiting}) families.push_back(std::move(*each));
  return prometheus::TextSerializer{}.Serialize(families);
}

}  // namespace passing::controller
