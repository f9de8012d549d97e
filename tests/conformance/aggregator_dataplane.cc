// The userspace aggregator as a dataplane under test.
#include "conformance/dataplane.h"
#include "dataplane/aggregator.h"

namespace passing::conformance {
namespace {

class AggregatorDataplane : public Dataplane {
 public:
  explicit AggregatorDataplane(const dataplane::Capabilities& capabilities) : aggregator_(capabilities) {}

  Expected<void> install(const dataplane::JobSpec& spec) override {
    const auto job = aggregator_.jobs().install(spec);
    if (!job) return tl::unexpected(job.error());
    return {};
  }

  void depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) override {
    aggregator_.jobs().depart(job, epoch, member);
  }

  std::optional<Sent> handle(const Address& from, const std::vector<std::byte>& packet) override {
    std::byte out[wire::packet_bytes(PASSING_MAX_ELEMENTS)];
    const auto verdict = aggregator_.handle(from, packet, out);
    if (verdict.send == dataplane::Verdict::Send::nothing) return std::nullopt;
    Sent sent{.to = std::nullopt, .bytes = {out, out + verdict.bytes}};
    if (verdict.send == dataplane::Verdict::Send::sender) {
      wire::Header header;
      wire::parse(packet, wire::Direction::to_switch, PASSING_MAX_ELEMENTS, header);
      sent.to = header.member;
    }
    return sent;
  }

  bool big_endian() const override { return false; }

  std::optional<std::uint64_t> counter(const std::string& name) const override {
    return counter_by_name(aggregator_.counters(), name);
  }

 private:
  dataplane::Aggregator aggregator_;
};

}  // namespace

std::optional<std::uint64_t> counter_by_name(const dataplane::Counters& counters, const std::string& name) {
  const std::pair<const char*, std::uint64_t> plain[] = {{"packets_in", counters.packets_in},
                                                         {"bytes_in", counters.bytes_in},
                                                         {"packets_out", counters.packets_out},
                                                         {"bytes_out", counters.bytes_out},
                                                         {"retransmissions", counters.retransmissions},
                                                         {"adds", counters.adds},
                                                         {"results", counters.results},
                                                         {"results_again", counters.results_again},
                                                         {"duplicates", counters.duplicates},
                                                         {"notices", counters.notices},
                                                         {"notices_again", counters.notices_again},
                                                         {"status_answers", counters.status_answers}};
  for (const auto& [key, value] : plain) {
    if (name == key) return value;
  }
  for (std::size_t i = 0; i < wire::kDropReasons; ++i) {
    if (name == wire::to_string(static_cast<wire::Drop>(i))) return counters.drops[i];
  }
  return std::nullopt;
}

std::unique_ptr<Dataplane> make_aggregator(const dataplane::Capabilities& capabilities) {
  return std::make_unique<AggregatorDataplane>(capabilities);
}

}  // namespace passing::conformance
