import { messages } from '../messages/en.ts'
import type { ApiError } from './error.ts'

/** The errors of a form: those of its fields, and what belongs to none. */
export interface FieldErrors {
  /** The sentence of a field, by its name in the interface; members (`condition.window`) have names of their own. */
  forField: (field: string) => string | undefined
  /** The error when it does not belong to a field of the form. */
  rest: ApiError | undefined
}

/** The field that the interface's sentence names: `Invalid field: url exceeds …`, `Missing required field: name`. */
export function fieldOf(message: string): string | undefined {
  return /^(?:Invalid|Missing required) field: ([^\s]+)/.exec(message)?.[1]
}

/**
 * The interface's sentence as it stands next to the field that it names, `Exceeds maximum length of 64`; undefined for
 * another sentence than `Invalid field: …`.
 */
export function problemOf(message: string, field = ''): string | undefined {
  const start = `Invalid field: ${field} `
  if (!message.startsWith(start)) return undefined
  return message.charAt(start.length).toUpperCase() + message.slice(start.length + 1)
}

function sentenceOf(message: string): string {
  return (
    problemOf(message, fieldOf(message)) ?? (message.startsWith('Missing') ? messages.errors.missingField : message)
  )
}

/** Puts the error of a change to the field that it names; `fields` are those that the form shows. */
export function fieldErrors(error: ApiError | undefined, fields: readonly string[]): FieldErrors {
  const named = error?.status === 400 ? fieldOf(error.message) : undefined
  // The error of a list's member is the list's: `site_ids[0]`, `notification_config.to[1]`.
  const name = named?.replace(/\[\d+\].*$/, '')
  const field = name !== undefined && fields.includes(name) ? name : undefined
  return {
    forField: (asked) => (error !== undefined && asked === field ? sentenceOf(error.message) : undefined),
    rest: field === undefined ? error : undefined,
  }
}
