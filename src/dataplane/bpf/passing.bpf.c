/* The switch in the kernel: one aggregation, attached at XDP or at tc. */
#include <linux/pkt_cls.h>

#include "aggregate.h"

char _license[] SEC("license") = "Apache-2.0";

/* What belongs to this processor. */
INLINE struct passing_bpf_counters* own_counters(void) {
  const uint32_t zero = 0;
  return bpf_map_lookup_elem(&counters, &zero);
}

INLINE struct work* own_work(void) {
  const uint32_t zero = 0;
  return bpf_map_lookup_elem(&works, &zero);
}

/* ---- tc: any MTU, and the queues of the ports are honoured. */

/* Sends the frame, which is addressed to its sender, to all members of the job: clones for all but the last.
 */
INLINE int tc_to_everyone(struct __sk_buff* skb, const struct work* work, const struct passing_bpf_job* job,
                          struct passing_bpf_counters* all) {
  const uint32_t lane = work->answer.lane;
  uint32_t out = 0;
#pragma clang loop unroll(disable)
  for (uint32_t m = 0; m < PASSING_MAX_MEMBERS; ++m) {
    if (m >= job->members) break;
    const struct passing_bpf_place* place = place_of(job, m, lane);
    if (place == 0) continue;
    if (out != 0 && bpf_clone_redirect(skb, out, 0) != 0) count(all, PASSING_BPF_SEND_FAILURES, 1);
    void* data = (void*)(long)skb->data;
    void* end = (void*)(long)skb->data_end;
    const uint32_t udp = udp_of(&work->found);
    if (data + PASSING_BPF_MOST_HEADERS > end || data + udp + sizeof(struct udphdr) > end) return TC_ACT_SHOT;
    readdress(data, udp, place);
    out = place->interface;
  }
  return out != 0 ? (int)bpf_redirect(out, 0) : TC_ACT_SHOT;
}

/* Makes the first bytes of a frame accessible: all of a contribution, or the headers of whatever else it is.
 */
INLINE int tc_pull(struct __sk_buff* skb, const struct found* found) {
  const uint32_t before = udp_of(found) + sizeof(struct udphdr);
  const uint32_t most = PASSING_HEADER_BYTES + 4 * settings.elements;
  const uint32_t bytes = before + (found->length < most ? found->length : most);
  if ((void*)(long)skb->data + bytes <= (void*)(long)skb->data_end) return 0;
  return (int)bpf_skb_pull_data(skb, bytes);
}

SEC("tc")
int passing_tc(struct __sk_buff* skb) {
  void* data = (void*)(long)skb->data;
  void* end = (void*)(long)skb->data_end;
  if (data + PASSING_BPF_MOST_HEADERS > end) {
    bpf_skb_pull_data(skb, skb->len < PASSING_BPF_MOST_HEADERS ? skb->len : PASSING_BPF_MOST_HEADERS);
    data = (void*)(long)skb->data;
    end = (void*)(long)skb->data_end;
  }
  if (skb->vlan_present) return TC_ACT_UNSPEC; /* another network, whatever its addresses */
  struct work* work = own_work();
  struct passing_bpf_counters* all = own_counters();
  if (work == 0 || all == 0 || !find(data, end, skb->len, &work->found)) return TC_ACT_UNSPEC;
  count(all, PASSING_BPF_PACKETS_IN, 1);
  count(all, PASSING_BPF_BYTES_IN, work->found.length);
  if (skb->gso_size != 0) {
    count(all, PASSING_BPF_TRAINS, 1);
    count(all, PASSING_BPF_BAD_LENGTH, 1);
    return TC_ACT_SHOT;
  }
  if (tc_pull(skb, &work->found) != 0) return TC_ACT_SHOT;
  data = (void*)(long)skb->data;
  end = (void*)(long)skb->data_end;
  if (data + sizeof(struct ethhdr) > end) return TC_ACT_SHOT;
  struct target target = {};
  aggregate(data, end, work, skb->ifindex, all, &target);
  if (AGAIN(work->answer.send) == SEND_NOTHING || target.job == 0 || target.sums == 0) return TC_ACT_SHOT;

  const uint32_t payload = udp_of(&work->found) + sizeof(struct udphdr) + PASSING_HEADER_BYTES;
  uint32_t bytes = 4 * AGAIN(work->answer.count);
  SAME_REGISTER(bytes);
  if (skb->len != payload + bytes && bpf_skb_change_tail(skb, payload + bytes, 0) != 0) {
    count(all, PASSING_BPF_SEND_FAILURES, 1);
    return TC_ACT_SHOT;
  }
  if (AGAIN(work->answer.type) == PASSING_RESULT && bytes > 0 && bytes <= 4 * settings.elements)
    bpf_skb_store_bytes(skb, payload, target.sums, bytes, 0);
  write_answer((void*)(long)skb->data, (void*)(long)skb->data_end, work);
  if (AGAIN(work->answer.send) == SEND_SENDER) return (int)bpf_redirect(skb->ifindex, 0);
  return tc_to_everyone(skb, work, target.job, all);
}

/* ---- XDP: before the network stack, frames of one buffer only. */

INLINE void put_sums(void* payload, void* end, const uint32_t* from, uint32_t words) {
  const uint32_t strides = words / 8;
#pragma clang loop unroll(disable)
  for (uint32_t i = 0; i < settings.elements / 8; ++i) {
    if (i >= strides) break;
    uint64_t* to = payload + 32 * i;
    if ((void*)(to + 4) > end) break;
    const uint64_t* source = (const uint64_t*)(from + 8 * i);
#pragma unroll
    for (int k = 0; k < 4; ++k) to[k] = source[k];
  }
  const uint32_t rest = words & ~7U;
#pragma clang loop unroll(disable)
  for (uint32_t k = 0; k < 7; ++k) {
    uint32_t at = rest + k;
    SAME_REGISTER(at);
    if (at >= words || at >= settings.elements) break;
    uint32_t* to = payload + 4 * at;
    if ((void*)(to + 1) > end) break;
    *to = from[at];
  }
}

SEC("xdp")
int passing_xdp(struct xdp_md* context) {
  void* data = (void*)(long)context->data;
  void* end = (void*)(long)context->data_end;
  struct work* work = own_work();
  struct passing_bpf_counters* all = own_counters();
  if (work == 0 || all == 0 || !find(data, end, end - data, &work->found)) return XDP_PASS;
  count(all, PASSING_BPF_PACKETS_IN, 1);
  count(all, PASSING_BPF_BYTES_IN, work->found.length);
  struct target target = {};
  aggregate(data, end, work, context->ingress_ifindex, all, &target);
  if (AGAIN(work->answer.send) == SEND_NOTHING || target.job == 0 || target.sums == 0) return XDP_DROP;

  const uint32_t payload = udp_of(&work->found) + sizeof(struct udphdr) + PASSING_HEADER_BYTES;
  const uint32_t words = AGAIN(work->answer.count);
  const int more = (int)(payload + 4 * words) - (int)(end - data);
  if (more != 0 && bpf_xdp_adjust_tail(context, more) != 0) {
    count(all, PASSING_BPF_SEND_FAILURES, 1);
    return XDP_DROP;
  }
  data = (void*)(long)context->data;
  end = (void*)(long)context->data_end;
  if (AGAIN(work->answer.type) == PASSING_RESULT) put_sums(data + payload, end, target.sums, words);
  write_answer(data, end, work);
  /* Not XDP_TX: a veth puts such a frame into the ring of its peer and then wakes it only if the peer has a
   * program, too. */
  if (AGAIN(work->answer.send) == SEND_SENDER) return (int)bpf_redirect(context->ingress_ifindex, 0);
  const uint32_t index = target.job->index;
  const struct passing_bpf_tally* tally = bpf_map_lookup_elem(&tallies, &index);
  if (tally == 0) return XDP_DROP;
  const uint32_t fan_at = tally->crowd - 1;
  void* fan = bpf_map_lookup_elem(&fans, &fan_at);
  return fan != 0 ? (int)bpf_redirect_map(fan, 0, BPF_F_BROADCAST) : XDP_DROP;
}

/* On the way out of a port: addresses this copy to the next member behind the port, or drops it. */
SEC("xdp/devmap")
int to_member(struct xdp_md* context) {
  void* data = (void*)(long)context->data;
  void* end = (void*)(long)context->data_end;
  const struct ethhdr* ethernet = data;
  if ((void*)(ethernet + 1) > end) return XDP_DROP;
  const uint32_t udp = sizeof *ethernet + (ethernet->h_proto == bpf_htons(ETH_P_IP) ? sizeof(struct iphdr)
                                                                                    : sizeof(struct ipv6hdr));
  const struct passing_header* header = data + udp + sizeof(struct udphdr);
  if (data + PASSING_BPF_MOST_HEADERS > end || (void*)(header + 1) > end) return XDP_DROP;
  const uint32_t number = bpf_ntohl(header->job);
  const struct passing_bpf_job* job = bpf_map_lookup_elem(&jobs, &number);
  const uint32_t interface = context->egress_ifindex;
  struct copy* copy = bpf_map_lookup_elem(&copies, &interface);
  if (job == 0 || copy == 0) return XDP_DROP;
  const uint32_t lane_and_type = (uint32_t)header->lane << 8 | header->type;
  if (copy->installation != job->installation || copy->sequence != header->sequence ||
      copy->lane_and_type != lane_and_type) {
    copy->installation = job->installation;
    copy->sequence = header->sequence;
    copy->lane_and_type = lane_and_type;
    copy->next = 0;
  }
#pragma clang loop unroll(disable)
  for (uint32_t m = 0; m < PASSING_MAX_MEMBERS; ++m) {
    if (m >= job->members) break;
    if (m < copy->next) continue;
    const struct passing_bpf_place* place = place_of(job, m, header->lane);
    if (place == 0 || place->interface != interface) continue;
    copy->next = m + 1;
    readdress(data, udp, place);
    return XDP_PASS;
  }
  copy->next = PASSING_MAX_MEMBERS;
  return XDP_DROP;
}
