#include "net/matching.h"

#include <algorithm>

namespace passing::net {

void Posted::add(const TransferPtr& transfer) {
  auto table = std::find_if(tables_.begin(), tables_.end(),
                            [&](const Table& each) { return each.mask == transfer->mask; });
  // One that nobody uses now may serve another mask.
  if (table == tables_.end()) {
    table =
        std::find_if(tables_.begin(), tables_.end(), [](const Table& each) { return each.queues.empty(); });
  }
  if (table == tables_.end()) table = tables_.insert(table, Table{});
  table->mask = transfer->mask;
  // Made before its queue is: one without an entry must not stay behind if there is no memory.
  std::list<Entry> made;
  made.push_back({next_++, transfer});
  auto& queue = table->queues[transfer->tag & transfer->mask];
  queue.splice(queue.end(), made);
}

TransferPtr Posted::take(std::uint64_t tag) {
  std::optional<std::pair<Table*, Queues::iterator>> first;
  for (Table& each : tables_) {
    const auto found = each.queues.find(tag & each.mask);
    if (found == each.queues.end()) continue;
    if (!first || found->second.front().number < first->second->second.front().number)
      first.emplace(&each, found);
  }
  if (!first) return nullptr;
  const auto [table, queue] = *first;
  TransferPtr transfer = std::move(queue->second.front().transfer);
  queue->second.pop_front();
  if (queue->second.empty()) table->queues.erase(queue);
  return transfer;
}

bool Posted::fits(std::uint64_t tag) const {
  return std::ranges::any_of(tables_,
                             [&](const Table& each) { return each.queues.contains(tag & each.mask); });
}

bool Posted::remove(const TransferPtr& transfer) {
  for (Table& table : tables_) {
    if (table.mask != transfer->mask) continue;
    const auto queue = table.queues.find(transfer->tag & transfer->mask);
    if (queue == table.queues.end()) return false;
    // Of receives of the same kind usually the first.
    const auto found = std::find_if(queue->second.begin(), queue->second.end(),
                                    [&](const Entry& each) { return each.transfer == transfer; });
    if (found == queue->second.end()) return false;
    queue->second.erase(found);
    if (queue->second.empty()) table.queues.erase(queue);
    return true;
  }
  return false;
}

}  // namespace passing::net
