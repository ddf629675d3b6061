/** Lengths of time in milliseconds. */
export const secondMs = 1_000
export const minuteMs = 60 * secondMs
export const hourMs = 60 * minuteMs
/** 24 hours: a calendar day may be longer or shorter. */
export const dayMs = 24 * hourMs
/** Seven times 24 hours. */
export const weekMs = 7 * dayMs
