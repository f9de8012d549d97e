#include "work.h"

#include <ATen/ATen.h>
#include <pthread.h>

#include <utility>

#include "base/thread.h"

namespace passing::torch_backend {
namespace {

c10::intrusive_ptr<c10::ivalue::Future> future_for(const Outputs& outputs) {
  const auto list = c10::ListType::create(c10::TensorType::get());
  if (outputs.size() > 1) return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(list));
  return c10::make_intrusive<c10::ivalue::Future>(list);
}

c10::IValue value_of(const Outputs& outputs) {
  if (outputs.size() > 1) return outputs;
  return outputs.empty() ? Tensors() : outputs[0];
}

}  // namespace

std::runtime_error exception_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::deadline: return std::runtime_error("passing: Timed out : " + error.message);
    case ErrorCode::peer_lost:
      return std::runtime_error("passing: a connection is closed : " + error.message);
    default: return std::runtime_error("passing: " + error.message);
  }
}

PassingWork::PassingWork(int rank, Call call)
    : c10d::Work(rank, call.type, call.title,
                 call.inputs.empty() ? c10::optional<Tensors>() : c10::optional<Tensors>(call.inputs)),
      call_(std::move(call)),
      future_(future_for(call_.outputs)) {}

void PassingWork::settle() {
  std::call_once(finished_, [this] { finish_up(); });
  // Callbacks of the future may wait for this very work: it has ended by now.
  if (told_.exchange(true)) return;
  if (const auto trouble = exception()) {
    future_->setError(trouble);
  } else {
    future_->markCompleted(value_of(call_.outputs));
  }
}

void PassingWork::finish_up() {
  std::exception_ptr trouble;
  for (const Operation& each : call_.operations) {
    const auto ended = each.wait();
    if (!ended && !trouble) trouble = std::make_exception_ptr(exception_of(ended.error()));
  }
  if (!trouble && call_.after) {
    try {
      // Nothing here is part of a gradient, whoever waits.
      const at::NoGradGuard no_grad;
      call_.after();
    } catch (...) {
      trouble = std::current_exception();
    }
  }
  call_.after = nullptr;
  call_.kept.clear();
  finish(trouble);
}

bool PassingWork::isCompleted() {
  for (const Operation& each : call_.operations) {
    if (!each.test()) return false;
  }
  settle();
  future_->wait();
  return true;
}

bool PassingWork::wait(std::chrono::milliseconds timeout) {
  // Who waits without a limit of his own helps with the work.
  if (timeout == kNoTimeout) settle();
  const bool ended = c10d::Work::wait(timeout);
  // Whoever finished it is about to tell the future; within a callback it has been told.
  future_->wait();
  return ended;
}

void PassingWork::abort() {
  for (const Operation& each : call_.operations) each.cancel();
}

std::vector<at::Tensor> PassingWork::result() {
  TORCH_CHECK(isCompleted(), "passing: the result of a work is there when it has ended: wait() for it first");
  return call_.outputs.empty() ? Tensors() : call_.outputs[0];
}

c10::intrusive_ptr<c10::ivalue::Future> PassingWork::getFuture() { return future_; }

int PassingWork::sourceRank() const {
  const bool received = call_.type == c10d::OpType::RECV || call_.type == c10d::OpType::RECVANYSOURCE;
  TORCH_CHECK(received, "passing: only a recv has a source");
  return static_cast<int>(call_.operations.at(0).source());
}

Completer::Completer() : queue_(std::make_shared<Queue>()) {
  const std::lock_guard lock(queue_->mutex);
  if (const auto started = start(queue_); !started) throw exception_of(started.error());
}

// With the queue's mutex.
Expected<void> Completer::start(const std::shared_ptr<Queue>& queue) {
  queue->threads.reserve(queue->threads.size() + 1);  // a thread that is not kept would end the process
  auto thread = start_thread([queue] { run(queue); });
  if (!thread) return tl::unexpected(thread.error());
  pthread_setname_np(thread->native_handle(), "passing-torch");
  queue->threads.push_back(std::move(*thread));
  ++queue->idle;
  return {};
}

Completer::~Completer() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->stopping = true;
    threads = std::move(queue_->threads);
    queue_->threads.clear();
  }
  queue_->news.notify_all();
  for (std::thread& each : threads) {
    // A callback has destroyed the group: its thread ends after it.
    if (each.get_id() == std::this_thread::get_id()) {
      each.detach();
    } else {
      each.join();
    }
  }
}

void Completer::watch(const c10::intrusive_ptr<PassingWork>& work) {
  // The last operation to end brings the work here, and the reference with it: the communicator's thread must
  // not be the one that drops tensors, which may have to wait for Python. The memory for that is here
  // already: a listener must not throw.
  struct Ending {
    std::atomic<std::size_t> left;
    std::list<c10::intrusive_ptr<PassingWork>> work;
    std::shared_ptr<Queue> queue;
  };
  auto ending = std::make_shared<Ending>();
  ending->left = std::max<std::size_t>(1, work->operations().size());
  ending->work.push_back(work);
  ending->queue = queue_;
  const auto one_less = [ending] {
    if (ending->left.fetch_sub(1) != 1) return;
    {
      const std::lock_guard lock(ending->queue->mutex);
      ending->queue->works.splice(ending->queue->works.end(), ending->work);
    }
    ending->queue->news.notify_one();
  };
  if (work->operations().empty()) one_less();
  for (const Operation& each : work->operations()) each.on_end(one_less);
}

void Completer::run(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(queue->mutex);
  for (;;) {
    queue->news.wait(lock, [&queue] { return queue->stopping || !queue->works.empty(); });
    if (queue->works.empty()) return;
    auto work = std::move(queue->works.front());
    queue->works.pop_front();
    // A callback may wait for a work that only another thread can finish then. Most do not: without a thread
    // for that, this one goes on alone.
    if (--queue->idle == 0 && !queue->stopping) static_cast<void>(start(queue));
    lock.unlock();
    work->settle();
    work.reset();
    lock.lock();
    ++queue->idle;
  }
}

}  // namespace passing::torch_backend
