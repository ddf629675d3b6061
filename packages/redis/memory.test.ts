import { describeIdempotency } from './conformance/idempotency.ts'
import { describeLimiter } from './conformance/limiter.ts'
import { describeSessions } from './conformance/sessions.ts'

const createUrl = () => 'memory:'

describeLimiter('memory', createUrl)
describeSessions('memory', createUrl)
describeIdempotency('memory', createUrl)
