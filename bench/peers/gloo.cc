// Gloo's collectives, for `passing lab run`: rank and size come from the environment, rendezvous goes through
// PASSING_DIRECTORY. PEER_ALGORITHM chooses where Gloo has more than one; the first is the default:
//   all_reduce      ring, bcube (functions), halving_doubling (class),
//                   halving_doubling_sync (the same, without Gloo's thread; small tensors only)
//   broadcast       tree (function), one_to_all (class)
//   all_gather      ring (function), ring_class
//   reduce_scatter  halving_doubling (class), in place
//   all_to_all      direct (function)
// Options, buffers and classes are made once for all operations on a tensor.
#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/common/error.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <functional>
#include <memory>

#include "peer.h"

namespace {

using Context = std::shared_ptr<gloo::Context>;
using Run = std::function<void()>;

const char* from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) peer::refuse(fmt::format("{} is not set: run it by `passing lab run`", name));
  return text;
}

// A class of Gloo's.
template <class Algorithm, class... Arguments>
Run once_made(Arguments&&... arguments) {
  auto made = std::make_shared<Algorithm>(std::forward<Arguments>(arguments)...);
  return [made] { made->run(); };
}

// A function of Gloo's.
template <class Options>
Run with(std::shared_ptr<Options> options, void (*function)(Options&)) {
  return [options, function] { function(*options); };
}

Run all_reduce(const Context& context, const peer::Job& job, const std::string& how, float* data) {
  const auto count = static_cast<int>(job.elements);
  if (how.starts_with("halving_doubling"))
    return once_made<gloo::AllreduceHalvingDoubling<float>>(context, std::vector<float*>{data}, count);
  auto options = std::make_shared<gloo::AllreduceOptions>(context);
  options->setAlgorithm(how == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                       : gloo::AllreduceOptions::Algorithm::RING);
  options->setOutput(data, job.elements);
  options->setReduceFunction(
      [](void* out, const void* a, const void* b, std::size_t n) { gloo::sum<float>(out, a, b, n); });
  return [options] { gloo::allreduce(*options); };
}

Run broadcast(const Context& context, const peer::Job& job, const std::string& how, float* data) {
  if (how == "one_to_all")
    return once_made<gloo::BroadcastOneToAll<float>>(context, std::vector<float*>{data}, job.elements);
  auto options = std::make_shared<gloo::BroadcastOptions>(context);
  options->setOutput(data, job.elements);
  options->setRoot(0);
  return with(options, gloo::broadcast);
}

Run all_gather(const Context& context, const peer::Job& job, const std::string& how, float* data) {
  if (how == "ring_class") {
    // It copies the input to its place: here to itself.
    return once_made<gloo::AllgatherRing<float>>(context, std::vector<const float*>{data + job.own()}, data,
                                                 static_cast<int>(job.part));
  }
  auto options = std::make_shared<gloo::AllgatherOptions>(context);
  options->setOutput(data, job.elements);
  return with(options, gloo::allgather);
}

Run prepare(const Context& context, const peer::Job& job, const std::string& how, peer::Data& data) {
  switch (job.collective) {
    case peer::Collective::all_reduce: return all_reduce(context, job, how, data.output.data());
    case peer::Collective::broadcast: return broadcast(context, job, how, data.output.data());
    case peer::Collective::all_gather: return all_gather(context, job, how, data.output.data());
    case peer::Collective::reduce_scatter:
      return once_made<gloo::ReduceScatterHalvingDoubling<float>>(
          context, std::vector<float*>{data.input.data()}, static_cast<int>(job.elements),
          std::vector<int>(job.size, static_cast<int>(job.part)));
    case peer::Collective::all_to_all: break;
  }
  auto options = std::make_shared<gloo::AlltoallOptions>(context);
  options->setInput(data.input.data(), job.elements);
  options->setOutput(data.output.data(), job.elements);
  return with(options, gloo::alltoall);
}

std::vector<std::string> algorithms(peer::Collective collective) {
  switch (collective) {
    case peer::Collective::all_reduce: return {"ring", "bcube", "halving_doubling", "halving_doubling_sync"};
    case peer::Collective::broadcast: return {"tree", "one_to_all"};
    case peer::Collective::all_gather: return {"ring", "ring_class"};
    case peer::Collective::reduce_scatter: return {"halving_doubling"};
    case peer::Collective::all_to_all: return {"direct"};
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  peer::Job job = peer::parse(argc, argv);
  peer::one_at_a_time(job);
  job.take_place(static_cast<std::uint32_t>(peer::number("RANK", from_environment("RANK"), 0)),
                 static_cast<std::uint32_t>(peer::number("WORLD_SIZE", from_environment("WORLD_SIZE"), 1)));
  const auto offered = algorithms(job.collective);
  const std::string how = peer::algorithm(offered.front());
  if (std::find(offered.begin(), offered.end(), how) == offered.end())
    peer::absent(fmt::format("{} for {}: Gloo has {}", how, job.name(), fmt::join(offered, ", ")));
  const bool sync = how.ends_with("_sync");
  // Partners write before they read, so what is written must fit a socket's buffer.
  constexpr std::size_t kMostSync = 64 << 10;
  if (sync && sizeof(float) * job.elements > kMostSync)
    peer::absent(
        fmt::format("{} for more than {} bytes: partners would wait for each other", how, kMostSync));

  gloo::transport::tcp::attr attributes;
  attributes.hostname = from_environment("PASSING_HOST_IP");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(from_environment("PASSING_DIRECTORY"));
  auto mesh =
      std::make_shared<gloo::rendezvous::Context>(static_cast<int>(job.rank), static_cast<int>(job.size));
  mesh->connectFullMesh(store, device);
  const Context context = mesh;

  auto data = peer::make_data(job);
  std::vector<Run> runs;
  for (peer::Data& each : data) runs.push_back(prepare(context, job, how, each));
  // A class, because Gloo's functions do not work with pairs that are read by the caller.
  gloo::BarrierAllToAll barrier(context);
  if (sync) {
    for (int r = 0; r < context->size; ++r) {
      if (r != context->rank) context->getPair(r)->setSync(true, false);
    }
  }
  const bool in_input = job.collective == peer::Collective::reduce_scatter;
  const auto result = peer::measure(
      job, data, [&](std::size_t i) { runs[i](); }, [](std::size_t) { return true; },
      [&](std::size_t i) { return in_input ? data[i].input.data() : data[i].output.data(); });
  // Nobody leaves before all have ended. Who comes last out of the barrier may find the others gone.
  try {
    barrier.run();
  } catch (const gloo::IoException&) {
  }
  return peer::report(job, result, how);
}
