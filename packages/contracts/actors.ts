/** Kinds of persons whose events are followed: the users of `user_id`, or visitors as in the metric `visitors`. */
export const actors = ['user', 'visitor'] as const

export type Actor = (typeof actors)[number]
