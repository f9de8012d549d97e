// The newest records of all ranks, and which neighbour has yet to hear of which: docs/faults.md section 3.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "judge/record.h"

namespace passing::judge {

class Board {
 public:
  Board(std::uint32_t size, std::size_t neighbours) : size_(size), unsent_(neighbours) {}

  /// Of a rank that has said nothing: an empty one.
  const Record& of(std::uint32_t rank) const;
  /// True if it is news, which all neighbours but this one have yet to hear.
  bool merge(std::uint16_t rank, const Record& record, std::size_t from);
  /// News for every neighbour.
  void publish(std::uint16_t rank, Record record);

  bool has_news_for(std::size_t neighbour) const { return !unsent_[neighbour].empty(); }
  /// As many as fit a message.
  std::vector<News::Entry> take_news_for(std::size_t neighbour);

 private:
  std::uint32_t size_;
  std::vector<Record>
      records_;  // none until there is something to tell: groups are large, and faults are rare
  std::vector<std::set<std::uint16_t>> unsent_;
};

}  // namespace passing::judge
