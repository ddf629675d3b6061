import type { Variable } from '@sluice/runtime/config'
import joi from 'joi'
import { clientReader } from './client.ts'

type ListVariable = Variable<readonly string[]> & { default: string }

/** Words between commas; none is an empty list. */
const list = joi.any().custom((text: string) => partsOf(text)) as joi.Schema<readonly string[]>

function partsOf(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

/** Of every service that has clients. */
export const trustedProxies: ListVariable = {
  schema: list,
  description:
    'Proxies whose X-Forwarded-For, -Proto and -Host are believed: addresses, networks (10.0.0.0/8), or loopback, linklocal, uniquelocal; with commas between them.',
  default: '',
  check: (text) => clientReader(partsOf(text)),
}

/** Of services with routes under /api/v1. */
export const corsOrigins: ListVariable = {
  schema: list,
  description:
    'Origins whose pages may call /api/v1 with a key, e.g. https://intranet.example; with commas between them. /collect answers any origin.',
  default: '',
  check: (text) => {
    for (const origin of partsOf(text)) {
      if (!URL.canParse(origin) || new URL(origin).origin !== origin) {
        throw new Error('must name origins as browsers send them, e.g. https://intranet.example')
      }
    }
  },
}
