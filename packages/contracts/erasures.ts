/** The fields of a request that say what to erase; it has exactly one of them. */
export const erasureSelectors = ['user_id', 'session_id', 'event_id', 'before'] as const
export type ErasureSelector = (typeof erasureSelectors)[number]

/** Kinds of selections of an erasure; `site`: everything of a site that is deleted. */
export type ErasureKind = ErasureSelector | 'site'

/** `queued → processing → completed`. */
export const erasureStatuses = ['queued', 'processing', 'completed'] as const
export type ErasureStatus = (typeof erasureStatuses)[number]

/** Body of POST /api/v1/sites/{site_id}/erasures: exactly one field. */
export interface CreateErasureBody {
  user_id?: string
  session_id?: string
  event_id?: string
  /** Unix ms: the events whose timestamp is earlier. */
  before?: number
}

/** An accepted erasure. */
export interface AcceptedErasure {
  erasure_id: string
  status: 'queued'
}

/** Record of an erasure (docs/http-interface.md#erasure-record). It does not repeat the value that was erased. */
export interface ErasureResource {
  erasure_id: string
  site_id: string
  kind: ErasureKind
  status: ErasureStatus
  /** Events that were stored when the erasure began; null until they are counted. */
  count: number | null
  /** Unix ms. What was accepted until then is erased. */
  requested_at: number
  /** Unix ms; null until it is completed. */
  completed_at: number | null
}
