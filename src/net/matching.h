// Which message goes to which receive: the first that fits, found in the same time however many there are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "net/transfer.h"

namespace passing::net {

/// Receives that wait for a message, in the order in which they were posted. A receive fits a tag that equals
/// its own where its mask has ones. There are few masks at a time: each has a table of its own, and a tag is
/// looked up in all of them.
class Posted {
 public:
  void add(const TransferPtr& transfer);
  /// The first that fits; it waits no longer.
  TransferPtr take(std::uint64_t tag);
  /// Whether any fits.
  bool fits(std::uint64_t tag) const;
  /// False: it does not wait here.
  bool remove(const TransferPtr& transfer);

 private:
  struct Entry {
    std::uint64_t number;  // in the order of all tables
    TransferPtr transfer;
  };
  using Queues = std::unordered_map<std::uint64_t, std::list<Entry>>;  // by the tag, as far as the mask goes
  struct Table {
    std::uint64_t mask = 0;
    Queues queues;
  };

  std::vector<Table> tables_;
  std::uint64_t next_ = 0;
};

/// Messages without a receive, in the order in which they came. Whoever looks for one gives a tag and a mask.
/// Each mask that has been used has a table of its own, and every message is in all of them; the tables are
/// few, since users have few masks. A mask beyond those is served too, by a look at every message.
template <class Item>
class Arrivals {
 public:
  Arrivals() { tables_.push_back({}); }
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  std::size_t size() const { return nodes_.size(); }
  void add(std::uint64_t tag, Item item) {
    // What needs memory comes first: a node is in all tables, or in none.
    std::list<Node> made;
    made.push_back({tag, std::move(item), {}, {}});
    for (Table& each : tables_) each.queues.try_emplace(tag & each.mask);
    Node& node = made.front();
    node.self = made.begin();
    nodes_.splice(nodes_.end(), made);
    for (std::size_t t = 0; t < tables_.size(); ++t) append(t, node);
  }
  /// The first that fits, and of which `good` says so.
  template <class Good>
  std::optional<Item> take(std::uint64_t tag, std::uint64_t mask, const Good& good) {
    if (nodes_.empty()) return std::nullopt;
    const std::size_t t = table_of(mask);
    const auto queue = tables_[t].queues.find(tag & tables_[t].mask);
    if (queue == tables_[t].queues.end()) return std::nullopt;
    for (Node* each = queue->second.first; each != nullptr; each = each->links[t].after) {
      if (((each->tag ^ tag) & mask) == 0 && good(each->item)) return remove(each);
    }
    return std::nullopt;
  }
  std::optional<Item> take(std::uint64_t tag, std::uint64_t mask) {
    return take(tag, mask, [](const Item&) { return true; });
  }
  /// Looks at every one, in order.
  template <class Bad>
  void erase_if(const Bad& bad) {
    for (Node* each = first(); each != nullptr;) {
      Node* next = each->links[0].after;
      if (bad(each->item)) remove(each);
      each = next;
    }
  }
  void clear() {
    erase_if([](const Item&) { return true; });
  }

 private:
  static constexpr std::size_t kTables = 6;
  struct Node;
  struct Link {
    Node* before = nullptr;
    Node* after = nullptr;
  };
  struct Node {
    std::uint64_t tag;
    Item item;
    std::array<Link, kTables> links;
    typename std::list<Node>::iterator self;
  };
  struct Queue {
    Node* first = nullptr;
    Node* last = nullptr;
  };
  struct Table {
    std::uint64_t mask = 0;
    std::unordered_map<std::uint64_t, Queue> queues;
  };

  // The first table's mask is 0: it has one queue, of everything.
  Node* first() const { return nodes_.empty() ? nullptr : tables_[0].queues.begin()->second.first; }

  std::size_t table_of(std::uint64_t mask) {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      if (tables_[t].mask == mask) return t;
    }
    if (tables_.size() == kTables) return 0;
    Table made{mask, {}};
    for (Node* each = first(); each != nullptr; each = each->links[0].after)
      made.queues.try_emplace(each->tag & mask);
    tables_.push_back(std::move(made));
    for (Node* each = first(); each != nullptr; each = each->links[0].after)
      append(tables_.size() - 1, *each);
    return tables_.size() - 1;
  }

  void append(std::size_t t, Node& node) {
    Queue& queue = tables_[t].queues[node.tag & tables_[t].mask];
    node.links[t] = {queue.last, nullptr};
    (queue.last == nullptr ? queue.first : queue.last->links[t].after) = &node;
    queue.last = &node;
  }

  Item remove(Node* node) {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      const auto [before, after] = node->links[t];
      if (before != nullptr) before->links[t].after = after;
      if (after != nullptr) after->links[t].before = before;
      if (before != nullptr && after != nullptr) continue;
      const auto queue = tables_[t].queues.find(node->tag & tables_[t].mask);
      if (before == nullptr) queue->second.first = after;
      if (after == nullptr) queue->second.last = before;
      if (before == nullptr && after == nullptr) tables_[t].queues.erase(queue);
    }
    Item item = std::move(node->item);
    nodes_.erase(node->self);
    return item;
  }

  std::list<Node> nodes_;
  std::vector<Table> tables_;
};

}  // namespace passing::net
