#include "dataplane/bpf/bpf.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "dataplane/bpf/attach.h"
#include "dataplane/bpf/constants.h"
#include "dataplane/jobs.h"
#include "passing.skel.h"

namespace passing::dataplane {
namespace {

static_assert(PASSING_BPF_WRONG_COUNT - PASSING_BPF_TOO_SHORT + 1 == wire::kDropReasons);
static_assert(PASSING_BPF_COUNTERS - PASSING_BPF_TOO_SHORT == wire::kDropReasons);

// As in maps.h, where the first word is the lock.
struct Slot {
  std::uint32_t lock;
  std::uint32_t unused;
  passing_bpf_version version[2];
};

constexpr std::uint32_t kSlotsPerRead = 256;

std::uint32_t rounded(std::uint32_t elements) { return (elements + 7) / 8 * 8; }

passing_bpf_place place_of(const net::SocketAddress& socket) {
  const Address address = net::to_protocol(socket);
  passing_bpf_place place{};
  std::copy(address.ip.begin(), address.ip.end(), place.ip);
  place.port = htons(address.port);
  return place;
}

// What libbpf says while it loads; of interest only if it fails.
std::string& said() {
  static std::string text;
  return text;
}

int listen_to_libbpf(libbpf_print_level level, const char* format, va_list arguments) {
  char line[512];
  const int length = vsnprintf(line, sizeof line, format, arguments);
  if (level == LIBBPF_WARN)
    said().append(line, std::min<std::size_t>(sizeof line - 1, static_cast<std::size_t>(length)));
  return length;
}

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

}  // namespace

const char* to_string(Hook hook) { return hook == Hook::xdp ? "xdp" : "tc"; }

struct BpfDataplane::State {
  explicit State(const Options& o) : options(o), table(o.capabilities) {}
  ~State() {
    attachment.reset();  // before the programs and maps go
    passing_bpf__destroy(skeleton);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Expected<void> load();
  Expected<void> claim_ports();
  Expected<void> list_ports();
  Expected<void> make_fans(std::size_t most);
  Expected<void> attach();
  Expected<void> reserve_ports();

  std::optional<std::uint32_t> free_places(std::uint32_t wanted) const;
  std::uint32_t free_index() const;
  Expected<void> publish(const Job& job);
  void wait_for_programs() const;

  template <class Look>
  void each_program(Look look) const {
    for (const bpf_program* program : {entrance(), skeleton->progs.to_member}) {
      bpf_prog_info info{};
      __u32 size = sizeof info;
      if (bpf_program__fd(program) >= 0 &&
          bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0)
        look(info);
    }
  }
  int map(const bpf_map* which) const { return bpf_map__fd(which); }
  bpf_program* entrance() const {
    return options.hook == Hook::xdp ? skeleton->progs.passing_xdp : skeleton->progs.passing_tc;
  }

  // What the kernel has of a job beside its slots.
  struct Share {
    std::uint32_t first_place = 0;
    std::uint32_t places = 0;
    std::uint32_t index = 0;
  };

  Options options;
  JobTable table;
  std::map<std::uint32_t, Share> shares;  // by job
  passing_bpf* skeleton = nullptr;
  std::vector<Interface> interfaces;
  std::vector<Descriptor> claims;  // on interfaces
  std::vector<Descriptor> fans;
  std::vector<Descriptor>
      reserved;  // sockets on our ports: nobody else takes them, nobody gets an ICMP error
  Descriptor statistics;
  std::unique_ptr<Attachment> attachment;
};

BpfDataplane::BpfDataplane(std::unique_ptr<State> state) : state_(std::move(state)) {}
BpfDataplane::~BpfDataplane() = default;

Expected<std::unique_ptr<BpfDataplane>> BpfDataplane::start(const Options& options) {
  PASSING_ASSERT(options.capabilities.lane_step == 1 && options.ports >= 1);
  auto state = std::make_unique<State>(options);
  for (const std::string& name : options.interfaces) {
    const unsigned index = if_nametoindex(name.c_str());
    if (index == 0) return fail(ErrorCode::invalid_argument, fmt::format("there is no interface '{}'", name));
    state->interfaces.push_back({name, index});
  }
  for (const auto step :
       {&State::claim_ports, &State::load, &State::list_ports, &State::reserve_ports, &State::attach}) {
    if (auto done = (state.get()->*step)(); !done) return tl::unexpected(done.error());
  }
  return std::unique_ptr<BpfDataplane>(new BpfDataplane(std::move(state)));
}

Expected<void> BpfDataplane::State::claim_ports() {
  for (const Interface& interface : interfaces) {
    claims.emplace_back(claim(interface));
    if (claims.back().get() < 0) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("another passing switch runs on {}: end it, or choose other interfaces",
                              interface.name));
    }
  }
  return {};
}

Expected<void> BpfDataplane::State::load() {
  libbpf_set_print(listen_to_libbpf);
  said().clear();
  skeleton = passing_bpf__open();
  if (skeleton == nullptr)
    return fail(ErrorCode::no_capacity, fmt::format("cannot open the programs: {}", std::strerror(errno)));
  const Address own = net::to_protocol(options.listen);
  passing_bpf_settings& settings = skeleton->rodata->settings;
  std::copy(own.ip.begin(), own.ip.end(), settings.address);
  settings.port = own.port;
  settings.ports = static_cast<std::uint16_t>(options.ports);
  settings.elements = options.capabilities.elements;
  bpf_map__set_max_entries(skeleton->maps.slots, options.capabilities.slots);
  bpf_map__set_max_entries(skeleton->maps.sums, 2 * options.capabilities.slots);
  bpf_map__set_value_size(skeleton->maps.sums, 4 * rounded(options.capabilities.elements));
  bpf_program__set_autoload(skeleton->progs.passing_tc, options.hook == Hook::tc);
  bpf_program__set_autoload(skeleton->progs.passing_xdp, options.hook == Hook::xdp);
  bpf_program__set_autoload(skeleton->progs.to_member, options.hook == Hook::xdp);
  if (const int status = passing_bpf__load(skeleton); status != 0) {
    const char* remedy = status == -EPERM || status == -EACCES
                             ? "run as root, or give CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
                         : status == -ENOMEM ? "ask for fewer --slots"
                                             : "Linux 5.15 or newer with CONFIG_BPF_SYSCALL is needed";
    return fail(ErrorCode::no_capacity, fmt::format("the kernel does not load the programs: {}; {}. {}",
                                                    std::strerror(-status), remedy, said()));
  }
  if (options.profile) {
    statistics = Descriptor(bpf_enable_stats(BPF_STATS_RUN_TIME));
    if (statistics.get() < 0) {
      return fail(ErrorCode::no_capacity,
                  fmt::format("the kernel does not measure programs: {}", std::strerror(errno)));
    }
  }
  return {};
}

Expected<void> BpfDataplane::State::list_ports() {
  const std::vector<char> nothing(static_cast<std::size_t>(libbpf_num_possible_cpus()) *
                                  bpf_map__value_size(skeleton->maps.copies));
  for (const Interface& interface : interfaces) {
    if (bpf_map_update_elem(map(skeleton->maps.copies), &interface.index, nothing.data(), BPF_ANY) != 0)
      return fail(ErrorCode::no_capacity, fmt::format("cannot list an interface: {}", std::strerror(errno)));
  }
  return make_fans(1);
}

// See maps.h: as many as the largest job can need, each when it is first needed, since listing one takes the
// kernel a while. For tc there is one, and it serves wait_for_programs() only.
Expected<void> BpfDataplane::State::make_fans(std::size_t most) {
  const auto refused = [](const char* what) {
    return fail(ErrorCode::no_capacity, fmt::format("cannot {}: {}", what, std::strerror(errno)));
  };
  const std::size_t ports = std::max<std::size_t>(1, interfaces.size());
  while (fans.size() < (options.hook == Hook::xdp ? most : 1)) {
    const std::size_t crowd = fans.size() + 1;
    Descriptor fan(bpf_map_create(BPF_MAP_TYPE_DEVMAP, "fan", sizeof(std::uint32_t), sizeof(bpf_devmap_val),
                                  static_cast<std::uint32_t>(ports * crowd), nullptr));
    if (fan.get() < 0) return refused("make a map of ports");
    for (std::uint32_t entry = 0; options.hook == Hook::xdp && entry < interfaces.size() * crowd; ++entry) {
      bpf_devmap_val value{};
      value.ifindex = interfaces[entry / crowd].index;
      value.bpf_prog.fd = bpf_program__fd(skeleton->progs.to_member);
      if (bpf_map_update_elem(fan.get(), &entry, &value, BPF_ANY) != 0)
        return refused("put an interface into a map of ports");
    }
    const auto index = static_cast<std::uint32_t>(crowd - 1);
    const int descriptor = fan.get();
    if (bpf_map_update_elem(map(skeleton->maps.fans), &index, &descriptor, BPF_ANY) != 0)
      return refused("list a map of ports");
    fans.push_back(std::move(fan));
  }
  return {};
}

Expected<void> BpfDataplane::State::reserve_ports() {
  if (interfaces.empty()) return {};
  for (unsigned p = 0; p < options.ports; ++p) {
    net::SocketAddress address = options.listen;
    address.set_port(static_cast<std::uint16_t>(options.listen.port() + p));
    Descriptor socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int least = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    if (::bind(socket.get(), address.get(), address.length) != 0) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("cannot listen on {}: {}", net::to_string(address), std::strerror(errno)));
    }
    reserved.push_back(std::move(socket));
  }
  return {};
}

Expected<void> BpfDataplane::State::attach() {
  if (interfaces.empty()) return {};
  auto made = Attachment::make(options.hook, bpf_program__fd(entrance()), interfaces);
  if (!made) return tl::unexpected(made.error());
  attachment = std::move(*made);
  return {};
}

std::optional<std::uint32_t> BpfDataplane::State::free_places(std::uint32_t wanted) const {
  std::map<std::uint32_t, std::uint32_t> used;
  for (const auto& [job, share] : shares) used[share.first_place] = share.places;
  std::uint32_t begin = 0;
  for (const auto& [first, number] : used) {
    if (first - begin >= wanted) return begin;
    begin = first + number;
  }
  if (PASSING_BPF_MOST_PLACES - begin >= wanted) return begin;
  return std::nullopt;
}

std::uint32_t BpfDataplane::State::free_index() const {
  std::set<std::uint32_t> used;
  for (const auto& [job, share] : shares) used.insert(share.index);
  std::uint32_t index = 0;
  while (used.count(index) != 0) ++index;
  return index;
}

// Replaces what programs see of a job in one step.
Expected<void> BpfDataplane::State::publish(const Job& job) {
  const Share& share = shares.at(job.spec.job);
  const passing_bpf_job value{.key = job.spec.key,
                              .everyone = job.everyone,
                              .departed = job.departed,
                              .epoch = job.spec.epoch,
                              .installation = job.installation,
                              .first_slot = job.first_slot,
                              .slots = job.spec.slots,
                              .first_sequence = job.spec.first_sequence,
                              .first_place = share.first_place,
                              .index = share.index,
                              .members = job.spec.members,
                              .lanes = job.spec.lanes,
                              .unused = 0};
  if (bpf_map_update_elem(map(skeleton->maps.jobs), &job.spec.job, &value, BPF_ANY) == 0) return {};
  return fail(ErrorCode::no_capacity, fmt::format("the kernel takes no more jobs: {}", std::strerror(errno)));
}

// When a map in a map is replaced, the kernel returns once no program runs that could still see the old one;
// so no program that saw a job which is gone can touch slots that are given to the next.
void BpfDataplane::State::wait_for_programs() const {
  const std::uint32_t first = 0;
  const int descriptor = fans.front().get();
  if (bpf_map_update_elem(map(skeleton->maps.fans), &first, &descriptor, BPF_ANY) == 0) return;
  // Without memory for it: programs run for microseconds.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

Expected<void> BpfDataplane::install(JobSpec spec, const std::vector<net::SocketAddress>& members) {
  State& state = *state_;
  if (state.shares.size() >= PASSING_BPF_MOST_JOBS) {
    return fail(ErrorCode::no_capacity,
                fmt::format("the switch has {} jobs, and serves no more", state.shares.size()));
  }
  spec.addresses.clear();
  for (const net::SocketAddress& each : members) spec.addresses.push_back(net::to_protocol(each));
  const std::uint32_t number = spec.job;
  const auto installed = state.table.install(std::move(spec));
  if (!installed) return tl::unexpected(installed.error());
  const Job& job = **installed;
  const auto undo = [&](const Error& error) -> Expected<void> {
    const std::uint32_t epoch = job.spec.epoch;
    const std::uint16_t size = job.spec.members;
    state.shares.erase(number);
    for (std::uint16_t m = 0; m < size; ++m) state.table.depart(number, epoch, m);
    return tl::unexpected(error);
  };
  const auto places = static_cast<std::uint32_t>(members.size());
  const auto first = state.free_places(places);
  if (!first) {
    return undo({ErrorCode::no_capacity,
                 fmt::format("the switch serves {} lanes of members, and has no room for {} more",
                             PASSING_BPF_MOST_PLACES, places),
                 {}});
  }
  state.shares[number] = {.first_place = *first, .places = places, .index = state.free_index()};
  const State::Share& share = state.shares.at(number);
  const passing_bpf_tally nothing{};
  bool written =
      bpf_map_update_elem(state.map(state.skeleton->maps.tallies), &share.index, &nothing, BPF_ANY) == 0;
  for (std::uint32_t i = 0; written && i < places; ++i) {
    const std::uint32_t at = share.first_place + i;
    const passing_bpf_place place = place_of(members[i]);
    written = bpf_map_update_elem(state.map(state.skeleton->maps.places), &at, &place, BPF_ANY) == 0;
  }
  if (!written) {
    return undo({ErrorCode::no_capacity,
                 fmt::format("the kernel does not take the job: {}", std::strerror(errno)),
                 {}});
  }
  if (auto made = state.make_fans(job.spec.members); !made) return undo(made.error());
  if (auto published = state.publish(job); !published) return undo(published.error());
  return {};
}

void BpfDataplane::depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) {
  State& state = *state_;
  const Job* before = state.table.find(job);
  if (before == nullptr || before->spec.epoch != epoch) return;
  state.table.depart(job, epoch, member);
  if (const Job* after = state.table.find(job); after != nullptr) {
    // What was there is memory that the next change of any job takes, while programs may still read it. (If
    // it cannot be changed, who has left is sent results that nobody receives.)
    if (state.publish(*after)) state.wait_for_programs();
    return;
  }
  bpf_map_delete_elem(state.map(state.skeleton->maps.jobs), &job);
  state.wait_for_programs();
  state.shares.erase(job);
}

std::vector<JobProgress> BpfDataplane::progress(std::uint32_t number) {
  const State& state = *state_;
  const Job* job = state.table.find(number);
  if (job == nullptr) return {};
  ProgressOfSlots sum(*job);
  std::vector<Slot> slots(kSlotsPerRead);
  std::vector<std::uint32_t> keys(kSlotsPerRead);
  bpf_map_batch_opts options{};
  options.sz = sizeof options;
  options.elem_flags = BPF_F_LOCK;
  for (std::uint32_t at = job->first_slot, end = at + job->slot_count; at < end;) {
    std::uint32_t before = at - 1;
    std::uint32_t last = 0;
    std::uint32_t got = std::min(kSlotsPerRead, end - at);
    const int status =
        bpf_map_lookup_batch(state.map(state.skeleton->maps.slots), at == 0 ? nullptr : &before, &last,
                             keys.data(), slots.data(), &got, &options);
    // At the end of the map it says so, and gives what there is.
    if ((status != 0 && errno != ENOENT) || got == 0) break;
    for (std::uint32_t i = 0; i < got; ++i) {
      for (const passing_bpf_version& version : slots[i].version) {
        sum.add(version.installation, version.sequence, version.bitmap,
                version.poison != PASSING_SLOT_ABSENT);
      }
    }
    at += got;
  }
  passing_bpf_tally tally{};
  bpf_map_lookup_elem(state.map(state.skeleton->maps.tallies), &state.shares.at(number).index, &tally);
  JobProgress result = sum.take();
  result.completed = tally.completed;
  return {std::move(result)};
}

Totals BpfDataplane::totals() {
  const State& state = *state_;
  std::vector<passing_bpf_counters> processors(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  const std::uint32_t zero = 0;
  PASSING_ASSERT(bpf_map_lookup_elem(state.map(state.skeleton->maps.counters), &zero, processors.data()) ==
                 0);
  std::uint64_t sums[PASSING_BPF_COUNTERS] = {};
  for (const passing_bpf_counters& each : processors) {
    for (std::size_t i = 0; i < PASSING_BPF_COUNTERS; ++i) sums[i] += each.value[i];
  }
  Totals totals;
  totals.counters = {.packets_in = sums[PASSING_BPF_PACKETS_IN],
                     .bytes_in = sums[PASSING_BPF_BYTES_IN],
                     .packets_out = sums[PASSING_BPF_PACKETS_OUT],
                     .bytes_out = sums[PASSING_BPF_BYTES_OUT],
                     .retransmissions = sums[PASSING_BPF_RETRANSMISSIONS],
                     .adds = sums[PASSING_BPF_ADDS],
                     .results = sums[PASSING_BPF_RESULTS],
                     .results_again = sums[PASSING_BPF_RESULTS_AGAIN],
                     .duplicates = sums[PASSING_BPF_DUPLICATES],
                     .notices = sums[PASSING_BPF_NOTICES],
                     .notices_again = sums[PASSING_BPF_NOTICES_AGAIN],
                     .status_answers = sums[PASSING_BPF_STATUS_ANSWERS],
                     .drops = {}};
  std::copy_n(sums + PASSING_BPF_TOO_SHORT, wire::kDropReasons, totals.counters.drops.begin());
  totals.send_failures = sums[PASSING_BPF_SEND_FAILURES];
  totals.uncut_trains = sums[PASSING_BPF_TRAINS];
  totals.slots = state.options.capabilities.slots;
  totals.free_slots = state.table.free_slots();
  totals.free_by_thread = {totals.free_slots};
  state.each_program([&](const bpf_prog_info& info) {
    totals.program_seconds += 1e-9 * static_cast<double>(info.run_time_ns);
    totals.program_runs += info.run_cnt;
  });
  return totals;
}

net::SocketAddress BpfDataplane::lane_address(std::uint32_t lane) const {
  net::SocketAddress address = state_->options.listen;
  address.set_port(static_cast<std::uint16_t>(address.port() + lane % state_->options.ports));
  return address;
}

const Capabilities& BpfDataplane::capabilities() const { return state_->options.capabilities; }
int BpfDataplane::program() const { return bpf_program__fd(state_->entrance()); }

std::uint32_t BpfDataplane::verified_instructions() const {
  std::uint32_t most = 0;
  state_->each_program([&](const bpf_prog_info& info) { most = std::max(most, info.verified_insns); });
  return most;
}

std::vector<std::string> BpfDataplane::warnings() const {
  return state_->attachment ? state_->attachment->warnings() : std::vector<std::string>();
}

}  // namespace passing::dataplane
