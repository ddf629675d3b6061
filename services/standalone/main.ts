import { runService } from '@sluice/http/run-service'
import { buildStandalone } from './build.ts'
import { variables } from './config.ts'

await runService({ name: 'sluice', variables, environment: process.env, build: buildStandalone })
