#include "judge/board.h"

#include <utility>

namespace passing::judge {

const Record& Board::of(std::uint32_t rank) const {
  static const Record nothing;
  PASSING_ASSERT(rank < size_);
  return records_.empty() ? nothing : records_[rank];
}

bool Board::merge(std::uint16_t rank, const Record& record, std::size_t from) {
  PASSING_ASSERT(rank < size_ && from < unsent_.size());
  if (record.version <= of(rank).version) return false;
  publish(rank, record);
  unsent_[from].erase(rank);
  return true;
}

void Board::publish(std::uint16_t rank, Record record) {
  PASSING_ASSERT(record.version > of(rank).version);
  if (records_.empty()) records_.resize(size_);
  records_[rank] = std::move(record);
  for (auto& each : unsent_) each.insert(rank);
}

std::vector<News::Entry> Board::take_news_for(std::size_t neighbour) {
  std::vector<News::Entry> entries;
  auto& unsent = unsent_[neighbour];
  while (!unsent.empty() && entries.size() < News::kMostEntries) {
    const std::uint16_t rank = *unsent.begin();
    entries.push_back({rank, of(rank)});
    unsent.erase(unsent.begin());
  }
  return entries;
}

}  // namespace passing::judge
