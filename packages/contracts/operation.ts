import type joi from 'joi'
import type { ErrorStatus } from './errors.ts'
import type { LimitClass, Scope } from './scopes.ts'

/**
 * One operation of the interface, as data: what may be asked, by whom, and what comes back. The services' routers bind
 * handlers to it, http checks by it, the OpenAPI document and the matrix of rights are generated from it.
 */
export interface Operation {
  /** Its name in the OpenAPI document; its handler's folder is the same in kebab-case. */
  id: string
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Path with `:name` parts, as in the contract. */
  path: string
  /** Heading that it stands under in /docs. */
  section: string
  /** One sentence for those who call it. */
  summary: string
  /** What a credential needs; `authenticated`: any will do; `public`: none is asked for. */
  scope: Scope | 'authenticated' | 'public'
  /** Another scope that will do as well. */
  orScope?: Scope
  /** Which limit of its key a request counts against. `public` operations have none. */
  limit?: LimitClass
  /**
   * A request costs 1, counted before its scope is checked; `body`: what its body says, counted by the handler through
   * `ApiRequest.spend`.
   */
  cost?: 'body'
  /** How the operation names the site or the object that rights depend on; a route without a rule does not compile. */
  rights: Rights
  /** Query parameters; the schema's order decides which problem is reported. */
  query?: joi.ObjectSchema
  /** Absent: a body is not read. */
  body?: BodyRule
  answer: {
    status: 200 | 201 | 202
    data?: joi.Schema
    /** Headers of its own, by name, with what they tell. */
    headers?: Readonly<Record<string, string>>
  }
  /** Statuses that it answers besides those that follow from the rest: a conflict, an unknown site in the query. */
  errors?: readonly ErrorStatus[]
  /** A failure that has `data`. */
  failureData?: { status: ErrorStatus; data: joi.Schema }
  /** Takes `Idempotency-Key` (contract section 1); never where the answer holds a secret. */
  idempotent?: true
  /** Answers pages of any origin, without cookies (contract section 1). */
  anyOrigin?: true
  /** Its successes come by the thousand: they are counted by the metrics, and logged at `debug` only. */
  quiet?: true
}

/** What a key that is bound to sites, or another's id, meets: see docs/rights.md, which is generated. */
export type Rights =
  /** Nothing in the request belongs to a site. */
  | { of: 'none' }
  /**
   * `site_id` of the query or the body. Reads of a foreign site answer 404 as for an absent one, writes 403. In `events`
   * and `queries` each has its own, and its own error.
   */
  | { of: 'site'; in: 'query' | 'body' | 'events' | 'queries' }
  /** An id of the path: foreign ones answer 404, as absent ones do. */
  | { of: 'object'; parameter: string; name: 'Site' | 'Key' | 'Cohort' }
  /** A list: foreign ones are left out. */
  | { of: 'list' }

export interface BodyRule {
  /** Media types taken; anything else is 415. */
  types: readonly string[]
  /** Largest body after decompression; anything larger is 413. */
  maxBytes: number
  /** What the JSON holds. */
  schema: joi.Schema
}

/** A small JSON object; far above what any body needs that is made by hand. */
export const jsonBody = (schema: joi.Schema): BodyRule => ({
  types: ['application/json'],
  maxBytes: 64 * 1024,
  schema,
})

/** JSON with criteria: 50,000 bytes of values, each of which JSON may write as six. */
export const criteriaBody = (schema: joi.Schema): BodyRule => ({ ...jsonBody(schema), maxBytes: 512 * 1024 })
