import type { Page } from './paging.ts'

/** Kinds of deliveries; a webhook takes the kinds that its `events` name. */
export const deliveryKinds = ['alert', 'event_summary', 'import.completed', 'export.completed', 'webhook.test'] as const
export type DeliveryKind = (typeof deliveryKinds)[number]

/** How a delivery reaches its target. A webhook's is always `webhook`; the others are of alert rules. */
export type Channel = 'webhook' | 'slack' | 'email'

/** How often a webhook gets an `event_summary`: each hour or each day, in the site's time zone. */
export const summaryIntervals = ['1h', '1d'] as const
export type SummaryInterval = (typeof summaryIntervals)[number]

/** `failed`: no attempt follows by itself. */
export const deliveryStatuses = ['pending', 'succeeded', 'failed'] as const
export type DeliveryStatus = (typeof deliveryStatuses)[number]

/** Limits of webhooks and their deliveries. */
export const webhookLimits = {
  /** Code points of a URL. */
  urlLengthMax: 2_048,
  /** Code points of a secret. */
  secretLengthMax: 256,
  webhooksPerSiteMax: 100,
  /** For how many days a delivery and its attempts can be read. */
  deliveryRetentionDays: 30,
  /** How many attempts of a delivery are kept, the last ones. */
  attemptsKeptMax: 100,
  /** Bytes that are read of a response. */
  responseBytesMax: 4_096,
  /** How long an attempt may take, in ms. */
  attemptTimeoutMs: 15_000,
} as const

/** The JSON that a receiver gets. */
export interface DeliveryBody {
  event_type: DeliveryKind
  /** Unix ms of the event that the delivery reports; the same in every attempt. */
  timestamp: number
  site_id: string
  data: unknown
}

/** The body of POST /api/v1/webhooks. */
export interface CreateWebhookBody {
  site_id: string
  url: string
  events: DeliveryKind[]
  active?: boolean
  /** Absent: a secret is generated, and the response contains it. */
  secret?: string
  summary_interval?: SummaryInterval
}

/** The body of PUT /api/v1/webhooks/:webhook_id: absent fields keep their value. */
export type UpdateWebhookBody = Partial<CreateWebhookBody>

/** The body of POST /api/v1/webhooks/:webhook_id/rotate-secret. */
export interface RotateSecretBody {
  /** For how many ms deliveries are signed with the old secret as well. */
  overlap: number
}

/** The body of POST /api/v1/webhooks/:webhook_id/recover. */
export interface RecoverBody {
  /** Unix ms. */
  since: number
}

/** The validated query of GET /api/v1/webhooks. */
export interface ListWebhooksQuery extends Page {
  site_id: string
}

/** The validated query of a webhook's list of deliveries. */
export interface ListDeliveriesQuery extends Page {
  status?: DeliveryStatus
}

/** A webhook (docs/http-interface.md#webhook-record); times are in Unix ms. The secret is not in it. */
export interface WebhookResource {
  webhook_id: string
  site_id: string
  url: string
  events: readonly DeliveryKind[]
  active: boolean
  summary_interval: SummaryInterval
  environment: string
  created_at: number
  updated_at: number
  /** Since when no attempt has succeeded; null: the last one did, or there was none. */
  failing_since: number | null
  /** When deliveries were switched off because the receiver failed; null: they are on. */
  disabled_at: number | null
  disabled_reason: string | null
  /** Until when deliveries are signed with the previous secret as well; null: no rotation. */
  previous_secret_expires_at: number | null
}

/** A webhook with its new secret, which no later response contains. */
export interface NewWebhookResource extends WebhookResource {
  secret?: string
}

/** One attempt to deliver. */
export interface AttemptResource {
  at: number
  /** Status of the response; null: there was none. */
  status: number | null
  latency_ms: number
  /** The beginning of the response's body; null: there was none. */
  response: string | null
  /** Why the attempt failed; null: it succeeded. */
  error: string | null
}

/** A delivery with its attempts (docs/http-interface.md#delivery-record); times are in Unix ms. */
export interface DeliveryResource {
  delivery_id: string
  event_type: DeliveryKind
  status: DeliveryStatus
  created_at: number
  next_attempt_at: number | null
  attempts: readonly AttemptResource[]
}

/** A delivery with what its receiver gets. */
export interface DeliveryWithPayload extends DeliveryResource {
  payload: DeliveryBody
}
