#include "net/memory_carrier.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>

#include "base/mutex.h"
#include "base/shortage.h"

namespace passing::net {
namespace {

using Status = Transfer::Status;

constexpr std::string_view kScheme = "memory:";
constexpr int kPostsAtOnce = 64;
constexpr const char* kGone = "it has gone";

std::uint64_t random_number() {
  const Nonce random = new_nonce();
  std::uint64_t number = 0;
  std::memcpy(&number, random.data(), sizeof number);
  return number;
}

// Where this process's inboxes are: no other process has it, nor a child of this one.
std::string home() {
  static const std::uint64_t own = random_number();
  return fmt::format("{}{:x}.{}.", kScheme, own, getpid());
}

}  // namespace

// From one rank to another: in whose name posts come. Any number of threads may hold it; only the counter
// changes.
struct MemoryCarrier::Line {
  std::shared_ptr<Inbox> from;
  std::uint32_t rank = 0;
  std::uint64_t group = 0;
  Key key{};
  std::atomic<std::size_t> unclaimed = 0;  // what of its small messages has not been taken by a receive
};

// Data in the sender's buffer. Whoever copies holds the mutex, so that the sender can take the offer back.
struct MemoryCarrier::Offer {
  explicit Offer(const void* from) : data(from) {}

  void take_back() {
    const MutexLock lock(mutex);
    taken_back = true;
  }
  // False: there is no such data any more.
  bool copy(void* to, std::size_t bytes) {
    const MutexLock lock(mutex);
    if (taken_back) return false;
    if (bytes > 0) std::memcpy(to, data, bytes);
    return true;
  }

  Mutex mutex;
  const void* const data;  // may be read by who holds the mutex, until it is
  bool taken_back PASSING_GUARDED_BY(mutex) = false;
};

struct MemoryCarrier::Post {
  enum class Kind : std::uint8_t {
    call,     // a rank will send, or waits for something
    message,  // a small one, with its data
    offer,    // a large one: the receiver answers when it has taken it
    taken,    // the answer, by the offer's id
    refuse,   // whoever says this is of another group
  };
  Kind kind{};
  std::shared_ptr<Line> line;
  std::uint64_t tag = 0;
  std::size_t bytes = 0;
  std::string data;  // of a message
  bool costs = false;
  std::shared_ptr<Offer> offer;
  std::uint64_t id = 0;

  // A receive has it: the sender's credit comes back.
  void claim() const {
    if (costs) line->unclaimed -= bytes + kRecord;
  }
};

// What nobody has read. It is there from the beginning, so that the end needs no memory.
struct MemoryCarrier::Unread {
  std::deque<Post> urgent;
  std::deque<Post> posts;
};

// What others have put there for one rank. Its owner alone takes things out.
struct MemoryCarrier::Inbox {
  std::string address;
  int event = -1;  // readable while there is something
  Mutex mutex;
  bool closed PASSING_GUARDED_BY(mutex) = false;
  bool raised PASSING_GUARDED_BY(mutex) = false;
  bool deserted PASSING_GUARDED_BY(mutex) = false;  // one that had been in touch has closed its own
  std::deque<Post> urgent PASSING_GUARDED_BY(mutex);
  std::deque<Post> posts PASSING_GUARDED_BY(mutex);

  // By address. Those whose carrier is gone are not in it.
  struct Directory {
    Mutex mutex;
    std::map<std::string, std::weak_ptr<Inbox>> inboxes PASSING_GUARDED_BY(mutex);
    std::uint64_t made PASSING_GUARDED_BY(mutex) = 0;
  };
  static Directory& directory() {
    static Directory all;
    return all;
  }
  static std::shared_ptr<Inbox> find(const std::string& address) {
    Directory& all = directory();
    const MutexLock lock(all.mutex);
    const auto found = all.inboxes.find(address);
    return found == all.inboxes.end() ? nullptr : found->second.lock();
  }
  ~Inbox() {
    if (event >= 0) ::close(event);
  }
  // False: nobody reads it any more.
  bool add(Post post, bool first = false) {
    const MutexLock lock(mutex);
    if (closed) return false;
    (first ? urgent : posts).push_back(std::move(post));
    raise();
    return true;
  }
  // Needs no memory: whoever says it may go for want of that.
  void desert() {
    const MutexLock lock(mutex);
    deserted = true;
    raise();
  }
  bool is_closed() {
    const MutexLock lock(mutex);
    return closed;
  }
  // `deserters`: somebody has gone since it was last asked for.
  std::optional<Post> next(bool& deserters) {
    const MutexLock lock(mutex);
    std::deque<Post>& from = urgent.empty() ? posts : urgent;
    if (from.empty()) {
      deserters = std::exchange(deserted, false);
      std::uint64_t count = 0;
      if (std::exchange(raised, false)) static_cast<void>(!::read(event, &count, sizeof count));
      return std::nullopt;
    }
    Post post = std::move(from.front());
    from.pop_front();
    return post;
  }
  // The inbox of someone who has gone, if something from there is still unread.
  std::shared_ptr<Inbox> sender(const std::string& whose) {
    const MutexLock lock(mutex);
    for (const auto* queue : {&urgent, &posts}) {
      for (const Post& each : *queue) {
        if (each.line->from->address == whose) return each.line->from;
      }
    }
    return nullptr;
  }

 private:
  void raise() PASSING_REQUIRES(mutex) {
    const std::uint64_t one = 1;
    if (!std::exchange(raised, true)) static_cast<void>(!::write(event, &one, sizeof one));
  }
};

Expected<std::unique_ptr<MemoryCarrier>> MemoryCarrier::create(std::uint32_t rank, std::uint32_t size) {
  std::unique_ptr<MemoryCarrier> made(new MemoryCarrier);
  made->rank_ = rank;
  made->peers_.resize(size);
  made->inbox_ = std::make_shared<Inbox>();
  made->unread_ = std::make_unique<Unread>();
  made->inbox_->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (made->inbox_->event < 0)
    return system_failure(ErrorCode::unreachable, "cannot wait for messages", errno);
  Inbox::Directory& all = Inbox::directory();
  const MutexLock lock(all.mutex);
  made->inbox_->address = fmt::format("{}{}", home(), ++all.made);
  all.inboxes.emplace(made->inbox_->address, made->inbox_);
  return made;
}

MemoryCarrier::~MemoryCarrier() { MemoryCarrier::detach(); }

// Others hear of it after what they already have from here, so that last words reach them. Needs no memory.
void MemoryCarrier::detach() {
  for (const Peer& peer : peers_) {
    for (const auto& [id, each] : peer.offered) each.second->take_back();
  }
  {
    Inbox::Directory& all = Inbox::directory();
    const MutexLock lock(all.mutex);
    all.inboxes.erase(inbox_->address);
  }
  {
    const MutexLock lock(inbox_->mutex);
    inbox_->closed = true;
    unread_->urgent.swap(inbox_->urgent);
    unread_->posts.swap(inbox_->posts);
  }
  for (const Peer& peer : peers_) {
    if (peer.line && !peer.lost) peer.inbox->desert();
  }
  for (auto* queue : {&unread_->urgent, &unread_->posts}) {
    for (const Post& each : *queue) each.line->from->desert();
    queue->clear();
  }
  // Inboxes that hold each other's lines would never go.
  arrived_.clear();
  for (Peer& each : peers_) each = {};
}

std::string MemoryCarrier::address() const { return inbox_->address; }

int MemoryCarrier::descriptor() const { return inbox_->event; }

Expected<void> MemoryCarrier::introduce(const std::vector<std::string>& addresses, std::uint64_t group,
                                        const Key& key) {
  const std::size_t known = std::min(addresses.size(), peers_.size());
  for (std::uint32_t r = 0; r < known; ++r) {
    if (addresses[r].starts_with(home())) continue;
    return fail(ErrorCode::unreachable,
                fmt::format("rank {} at '{}' is in another process: between processes use the carrier 'tcp'",
                            r, addresses[r]),
                {static_cast<std::uint16_t>(r)});
  }
  for (std::uint32_t r = 0; r < known; ++r) {
    if (peers_[r].inbox || peers_[r].lost) continue;
    peers_[r].inbox = Inbox::find(addresses[r]);
    // It may have found its reason to go earlier than this rank: what it had to say comes first.
    if (!peers_[r].inbox) peers_[r].inbox = inbox_->sender(addresses[r]);
    if (!peers_[r].inbox) lose(r, kGone);
  }
  group_ = group;
  key_ = key;
  introduced_ = true;
  return {};
}

std::shared_ptr<MemoryCarrier::Line> MemoryCarrier::new_line() const {
  return std::shared_ptr<Line>(new Line{inbox_, rank_, group_, key_});
}

// From here on each of the two is told when the other goes.
void MemoryCarrier::connect(Peer& peer) {
  if (peer.line || peer.lost) return;
  peer.line = new_line();
  put(peer, {.kind = Post::Kind::call});
}

// One that has gone is lost after whatever it has said before.
void MemoryCarrier::put(Peer& peer, Post post, bool urgent) {
  post.line = peer.line;
  if (!peer.inbox->add(std::move(post), urgent)) inbox_->desert();
}

TransferPtr MemoryCarrier::send(std::uint32_t to, std::uint64_t tag, const void* data, std::size_t bytes) {
  auto transfer = std::make_shared<Transfer>();
  transfer->sending = true;
  transfer->peer = to;
  transfer->tag = tag;
  transfer->bytes = bytes;
  ++sends_;
  Peer& peer = peers_[to];
  connect(peer);
  if (peer.lost) {
    end(*transfer, Status::failed);
  } else if (bytes <= kSmall && peer.line->unclaimed + bytes + kRecord <= kCredit) {
    peer.line->unclaimed += bytes + kRecord;
    put(peer, {.kind = Post::Kind::message,
               .tag = tag,
               .bytes = bytes,
               .data = {static_cast<const char*>(data), bytes},
               .costs = true});
    end(*transfer, Status::done);
  } else {
    auto offer = std::make_shared<Offer>(data);
    peer.offered.emplace(next_id_, std::pair(transfer, offer));
    put(peer, {.kind = Post::Kind::offer, .tag = tag, .bytes = bytes, .offer = offer, .id = next_id_++});
  }
  return transfer;
}

void MemoryCarrier::send_notice(std::uint32_t to, std::uint64_t tag, std::string data, bool urgent) {
  PASSING_ASSERT(data.size() <= kSmall);
  Peer& peer = peers_[to];
  connect(peer);
  const std::size_t bytes = data.size();
  if (!peer.lost)
    put(peer, {.kind = Post::Kind::message, .tag = tag, .bytes = bytes, .data = std::move(data)}, urgent);
}

TransferPtr MemoryCarrier::recv(std::uint32_t from, std::uint64_t tag, std::uint64_t mask, void* data,
                                std::size_t bytes, bool sure) {
  auto transfer = std::make_shared<Transfer>();
  transfer->peer = from;
  transfer->tag = tag;
  transfer->mask = mask;
  transfer->data = data;
  transfer->expected = bytes;
  if (auto arrived = arrived_.take(tag, mask)) {
    match(transfer, *arrived);
  } else {
    posted_.add(transfer);
    if (sure) connect(peers_[from]);
  }
  return transfer;
}

void MemoryCarrier::cancel(const TransferPtr& transfer) {
  if (posted_.remove(transfer)) end(*transfer, Status::cancelled);
}

std::optional<Message> MemoryCarrier::take(std::uint64_t tag, std::uint64_t mask) {
  auto found = arrived_.take(tag, mask, [](const Post& each) { return !each.offer; });
  if (!found) return std::nullopt;
  found->claim();
  return Message{.tag = found->tag, .data = std::move(found->data)};
}

// False: there was nothing.
bool MemoryCarrier::work() {
  if (!introduced_) return false;  // nobody can be told from a stranger yet
  bool some = false;
  for (int count = 0; count < kPostsAtOnce;) {
    bool deserters = false;
    auto post = inbox_->next(deserters);
    if (post) {
      handle(std::move(*post));
      some = true;
      ++count;
      continue;
    }
    some = some || deserters;
    lose_deserters();
    if (!deserters) break;
    find_deserters();
  }
  return some;
}

// Whoever has closed its inbox says nothing more. What it has said before may have come only now, so it is
// lost when the inbox has been empty once more.
void MemoryCarrier::find_deserters() {
  for (std::uint32_t r = 0; r < peers_.size(); ++r) {
    if (peers_[r].line && !peers_[r].lost && peers_[r].inbox->is_closed()) deserters_.push_back(r);
  }
}

void MemoryCarrier::lose_deserters() {
  for (const std::uint32_t rank : std::exchange(deserters_, {})) lose(rank, kGone);
}

void MemoryCarrier::handle(Post post) {
  const Line& line = *post.line;
  if (post.kind == Post::Kind::refuse) {
    for (std::uint32_t r = 0; r < peers_.size(); ++r) {
      if (peers_[r].inbox == line.from) lose(r, "it is of another group");
    }
    return;
  }
  if (line.rank >= peers_.size() || peers_[line.rank].inbox != line.from || line.group != group_ ||
      line.key != key_) {
    line.from->add({.kind = Post::Kind::refuse, .line = new_line()});
    return;
  }
  Peer& peer = peers_[line.rank];
  connect(peer);
  if (post.kind == Post::Kind::taken) {
    const auto found = peer.offered.find(post.id);
    if (found == peer.offered.end()) return;  // lost meanwhile
    const TransferPtr transfer = found->second.first;
    peer.offered.erase(found);
    end(*transfer, Status::done);
  } else if (post.kind != Post::Kind::call) {
    if (const TransferPtr transfer = posted_.take(post.tag)) {
      match(transfer, post);
    } else {
      const std::uint64_t tag = post.tag;
      arrived_.add(tag, std::move(post));
    }
  }
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): it is in arrived_

// A receive and its message have found each other.
void MemoryCarrier::match(const TransferPtr& transfer, Post& post) {
  transfer->tag = post.tag;
  transfer->bytes = post.bytes;
  Status status = post.bytes == transfer->expected ? Status::done : Status::wrong_length;
  const bool copies = status == Status::done && post.bytes > 0;
  if (!post.offer) {
    if (copies) std::memcpy(transfer->data, post.data.data(), post.bytes);
    post.claim();
  } else {
    if (!post.offer->copy(transfer->data, copies ? post.bytes : 0)) status = Status::failed;
    put(peers_[post.line->rank], {.kind = Post::Kind::taken, .id = post.id});
  }
  end(*transfer, status);
}

void MemoryCarrier::lose(std::uint32_t rank, const std::string& reason) {
  Peer& peer = peers_[rank];
  if (std::exchange(peer.lost, true)) return;
  lost_.push_back({rank, reason});
  arrived_.erase_if([&](const Post& each) { return each.offer && each.line->rank == rank; });
  // Ending a transfer may call back: take everything out first.
  for (const auto& [id, each] : std::exchange(peer.offered, {})) {
    each.second->take_back();
    end(*each.first, Status::failed);
  }
}

void MemoryCarrier::end(Transfer& transfer, Status status) {
  transfer.status = status;
  if (transfer.sending) --sends_;
  if (transfer.on_end) std::exchange(transfer.on_end, nullptr)();
}

}  // namespace passing::net
