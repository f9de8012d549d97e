// SimGrid's side. Its platform is a bundle of links: a flow has a pair of hosts of its own, and its route is
// whatever links it uses.
#include "simulate/grid.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <simgrid/s4u.hpp>
#include <string>

namespace passing::simulate {
namespace {

namespace s4u = simgrid::s4u;

// Bytes are whole numbers there; small enough pieces of them make the rounding vanish, as long as a flow has
// not more of them than 64 bits hold.
constexpr double kPiecesPerByte = 1e6;
constexpr double kMostPieces = 4e18;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr const char* kContexts = "--cfg=contexts/factory:thread";  // sanitizers know threads only
#else
constexpr const char* kContexts = "--cfg=contexts/factory:raw";
#endif

/// The engine with exact flows: no model of TCP's start, no acknowledgements on the way back.
class Grid {
 public:
  explicit Grid(const Scenario& scenario)
      : pieces_per_byte_(pieces_for(scenario)),
        engine_(&count_, arguments_),
        zone_(s4u::create_full_zone("cluster")) {
    const Traffic& traffic = scenario.traffic;
    const std::size_t jobs = scenario.jobs.size();
    for (std::size_t job = 0; job < jobs; ++job) {
      links_.emplace_back();
      for (std::size_t i = 0; i < traffic.links.size(); ++i) {
        const Link& each = traffic.links[i];
        // GPUs are a job's own, and so is its share of the slots.
        const bool own = each.kind == Kind::bus || each.kind == Kind::slots;
        const double rate = std::isinf(each.rate) ? 1 : each.rate;
        links_[job].push_back(
            job > 0 && !own
                ? links_[0][i]
                : zone_->create_link(std::to_string(job) + "." + std::to_string(i), rate * pieces_per_byte_)
                      ->set_latency(0)
                      ->seal());
      }
    }
    std::size_t flows = 0;
    for (const auto* steps : {&traffic.steps, &traffic.small_steps}) {
      for (const Step& step : *steps) flows += jobs * step.flows.size();
    }
    side_ = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(flows)))) + 1;
    for (std::size_t i = 0; i < 2 * side_; ++i)
      hosts_.push_back(zone_->create_host(std::to_string(i), 1.0)->seal());
    for (const auto* steps : {&traffic.steps, &traffic.small_steps}) {
      for (const Step& step : *steps) {
        for (const Flow& flow : step.flows) {
          for (std::size_t job = 0; job < jobs; ++job) add(flow, job);
        }
      }
    }
    zone_->seal();
  }

  void run() const { engine_.run(); }
  s4u::Host* anywhere() const { return hosts_.front(); }

  s4u::CommPtr start(const Flow& flow, std::size_t job, double bytes) const {
    const auto [from, to] = ends_.at({&flow, job});
    const double pieces = std::max(1.0, std::round(flow.tensors * bytes * pieces_per_byte_));
    return s4u::Comm::sendto_async(from, to, static_cast<std::uint64_t>(pieces));
  }

 private:
  static double pieces_for(const Scenario& scenario) {
    double tensors = 0;
    for (const auto* steps : {&scenario.traffic.steps, &scenario.traffic.small_steps}) {
      for (const Step& step : *steps) {
        for (const Flow& flow : step.flows) tensors = std::max(tensors, flow.tensors);
      }
    }
    double bytes = 0;
    for (const train::Schedule& job : scenario.jobs) {
      for (const train::Bucket& each : job.buckets)
        bytes = std::max(bytes, sizeof(float) * static_cast<double>(each.elements));
    }
    return std::min(kPiecesPerByte, kMostPieces / std::max(1.0, tensors * bytes));
  }

  void add(const Flow& flow, std::size_t job) {
    const std::size_t number = ends_.size();
    const std::pair ends{hosts_[number / side_], hosts_[side_ + number % side_]};
    std::vector<s4u::LinkInRoute> route;
    for (const Use& use : flow.uses)
      route.insert(route.end(), use.times, s4u::LinkInRoute(links_[job][use.link]));
    zone_->add_route(ends.first->get_netpoint(), ends.second->get_netpoint(), nullptr, nullptr, route, false);
    ends_.emplace(std::pair{&flow, job}, ends);
  }

  // SimGrid takes its settings from a command line, and may change it.
  std::vector<std::string> words_ = {"simulate",
                                     "--log=root.thresh:critical",
                                     "--cfg=network/model:CM02",
                                     "--cfg=network/TCP-gamma:0",
                                     "--cfg=network/crosstraffic:no",
                                     "--cfg=debug/verbose-exit:no",
                                     kContexts};
  char* arguments_[8] = {words_[0].data(), words_[1].data(), words_[2].data(), words_[3].data(),
                         words_[4].data(), words_[5].data(), words_[6].data(), nullptr};
  int count_ = 7;
  double pieces_per_byte_;
  s4u::Engine engine_;
  s4u::NetZone* zone_;
  std::size_t side_ = 1;
  std::vector<std::vector<s4u::Link*>> links_;  // by job
  std::vector<s4u::Host*> hosts_;
  std::map<std::pair<const Flow*, std::size_t>, std::pair<s4u::Host*, s4u::Host*>> ends_;  // by flow and job
};

/// One bucket on its way, in an actor of its own: step by step, each after the same one of the bucket before,
/// or all of them after the last one of that.
class Passage {
 public:
  Passage(const Grid& grid, const Traffic& traffic, std::size_t job, double bytes,
          std::shared_ptr<Passage> before)
      : grid_(grid),
        job_(job),
        steps_(traffic.steps_for(bytes)),
        overlapping_(traffic.overlapping),
        bytes_(bytes),
        before_(std::move(before)) {
    for (std::size_t i = 0; i < steps_.size(); ++i) passed_.push_back(s4u::Semaphore::create(0));
  }

  void run() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (i > 0) s4u::this_actor::sleep_for(steps_[i - 1].latency);
      await_before(i);
      if (i == 0) began_ = s4u::Engine::get_clock();
      std::vector<s4u::CommPtr> going;
      going.reserve(steps_[i].flows.size());
      for (const Flow& flow : steps_[i].flows) going.push_back(grid_.start(flow, job_, bytes_));
      for (const s4u::CommPtr& each : going) each->wait();
      passed_[i]->release();
    }
    // The latency of the last step is that of this bucket alone: the next one goes on.
    if (!steps_.empty()) s4u::this_actor::sleep_for(steps_.back().latency);
    before_.reset();
    ended_at_ = s4u::Engine::get_clock();
    ended_->release();
  }
  /// Only the trainer waits, once.
  void await() const { ended_->acquire(); }
  double began() const { return began_; }
  double ended() const { return ended_at_; }

 private:
  void await_before(std::size_t step) const {
    if (!before_ || before_->passed_.empty()) return;
    if (!overlapping_ && step == 0) before_->passed_.back()->acquire();
    if (overlapping_ && step < before_->passed_.size()) before_->passed_[step]->acquire();
  }

  const Grid& grid_;
  std::size_t job_;
  const std::vector<Step>& steps_;
  bool overlapping_;
  double bytes_;
  std::shared_ptr<Passage> before_;
  std::vector<s4u::SemaphorePtr> passed_;
  s4u::SemaphorePtr ended_ = s4u::Semaphore::create(0);
  double began_ = 0;
  double ended_at_ = 0;
};

/// Iterations of one job, one after the other: docs/simulation.md 1.7. Runs in an actor of its own.
class Trainer {
 public:
  Trainer(const Grid& grid, const Scenario& scenario, std::size_t job)
      : grid_(grid), scenario_(scenario), job_(job), schedule_(scenario.jobs[job]) {}

  Timing iterate() {
    const double begin = s4u::Engine::get_clock();
    busy_until_ = begin;
    busy_ = 0;
    std::shared_ptr<Passage> last;
    for (const train::Bucket& each : schedule_.buckets) {
      s4u::this_actor::sleep_until(begin + schedule_.forward_seconds + each.ready_seconds);
      if (under_way_.size() >= scenario_.in_flight) await_first();
      const double bytes = sizeof(float) * static_cast<double>(each.elements);
      last = std::make_shared<Passage>(grid_, scenario_.traffic, job_, bytes, last);
      under_way_.push_back(last);
      s4u::Actor::create("bucket", grid_.anywhere(), [passage = last] { passage->run(); });
    }
    while (!under_way_.empty()) await_first();
    s4u::this_actor::sleep_until(begin + schedule_.compute_seconds());
    return {.iteration_seconds = s4u::Engine::get_clock() - begin, .communication_seconds = busy_};
  }

 private:
  void await_first() {
    const Passage& first = *under_way_.front();
    first.await();
    busy_ += std::max(0.0, first.ended() - std::max(first.began(), busy_until_));
    busy_until_ = std::max(busy_until_, first.ended());
    under_way_.pop_front();
  }

  const Grid& grid_;
  const Scenario& scenario_;
  std::size_t job_;
  const train::Schedule& schedule_;
  double busy_until_ = 0;
  double busy_ = 0;
  std::deque<std::shared_ptr<Passage>> under_way_;
};

}  // namespace

Timing run_grid(const Scenario& scenario) {
  const Grid grid(scenario);
  Timing mean;
  bool over = false;
  for (std::size_t job = 0; job < scenario.jobs.size(); ++job) {
    s4u::Actor::create("job" + std::to_string(job), grid.anywhere(), [&, job] {
      Trainer trainer(grid, scenario, job);
      if (job > 0) {
        while (!over) trainer.iterate();
        return;
      }
      const unsigned counted = std::max(1U, scenario.iterations - 1);
      for (unsigned i = 0; i < scenario.iterations; ++i) {
        const Timing each = trainer.iterate();
        if (scenario.iterations > 1 && i == 0) continue;
        mean.iteration_seconds += each.iteration_seconds / counted;
        mean.communication_seconds += each.communication_seconds / counted;
      }
      over = true;
    });
  }
  grid.run();
  return mean;
}

}  // namespace passing::simulate
