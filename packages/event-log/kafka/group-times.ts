/** Timings of a member of the group, in ms. */
export interface KafkaGroupTimes {
  /** The group removes a member that has sent no heartbeat for this long. */
  sessionTimeoutMs: number
  heartbeatIntervalMs: number
  /** Time that the members have to rejoin when the group changes. */
  rebalanceTimeoutMs: number
}
