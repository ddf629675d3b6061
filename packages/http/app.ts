import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import express, { type NextFunction, type Request, type Response } from 'express'
import { invalidFormat, notFound } from '@sluice/runtime/errors'
import type { ClientReader } from './client-address.ts'
import type { Dispatch } from './dispatch.ts'
import { type CorsRule, corsRuleOf, preflightHeaders } from './headers.ts'
import { methodNotAllowed } from './http-error.ts'
import { requestIdOf } from './observe-requests.ts'
import type { Client, Route } from './route.ts'

/** Something public that is not part of the JSON interface, e.g. the page at `/`. */
export interface StaticPage {
  /** A path, or a pattern of Express: `/sites/{*rest}`. */
  path: string
  /** `client`: protocol and host as the client sees them. */
  handle: (
    request: IncomingMessage,
    response: ServerResponse,
    client: Pick<Client, 'isSecure' | 'host'>,
  ) => void | Promise<void>
}

interface AppDeps {
  dispatch: Dispatch
  clients: ClientReader
  corsOrigins: ReadonlySet<string>
}

/**
 * The listener of a service. A route without path parameters is looked up by method and path and dispatched directly:
 * the middleware of Express would cost more than all checks together (docs/decisions/004-direct-routes.md). Express
 * routes everything else: path parameters, pages, HEAD, 405, 404.
 */
export function createListener(routes: readonly Route[], pages: readonly StaticPage[], deps: AppDeps): RequestListener {
  const app = createApp(routes, pages, deps)
  const direct = new Map(
    routes.filter(({ path }) => !path.includes(':')).map((route) => [`${route.method} ${route.path}`, route]),
  )
  return (request, response) => {
    const { method = '', url = '' } = request
    const mark = url.indexOf('?')
    const route = direct.get(`${method} ${mark < 0 ? url : url.slice(0, mark)}`)
    if (route) void deps.dispatch.route(route, {}, request, response)
    else {
      // For a request target without a path, such as `foo://bar`, Express calls this function and none of its handlers.
      app(request as Request, response as Response, () => deps.dispatch.fail(notFound(), undefined, request, response))
    }
  }
}

/** The Express application of a route table: path parameters, HEAD, 405 with `Allow`, 404. */
function createApp(
  routes: readonly Route[],
  pages: readonly StaticPage[],
  { dispatch, clients, corsOrigins }: AppDeps,
): express.Express {
  const corsRule = (path: string): CorsRule => corsRuleOf(routes, path)
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.set('query parser', false)
  app.set('strict routing', true)
  app.set('case sensitive routing', true)

  for (const { path, handle } of pages) {
    app.get(path, (request, response) => {
      response.setHeader('X-Request-Id', requestIdOf(request))
      return handle(request, response, clients.read(request))
    })
    app.all(path, (request, response) => dispatch.fail(methodNotAllowed(['GET', 'HEAD']), undefined, request, response))
  }

  for (const [path, byMethod] of groupByPath(routes)) {
    app.all(path, (request: Request<Record<string, string>>, response: Response) => {
      const route = byMethod.get(request.method === 'HEAD' ? 'GET' : request.method)
      if (!route) {
        const preflight =
          request.method === 'OPTIONS' ? preflightHeaders([...byMethod.values()], corsOrigins, request) : undefined
        if (preflight) {
          response.writeHead(204, { ...preflight, 'X-Request-Id': requestIdOf(request) }).end()
          return
        }
        dispatch.fail(methodNotAllowed(allowedMethods(byMethod)), corsRule(path), request, response)
        return
      }
      return dispatch.route(route, request.params, request, response)
    })
  }

  app.use((request: Request, response: Response) =>
    dispatch.fail(notFound(), corsRule(request.path), request, response),
  )
  // Express recognises an error handler by its four parameters. It is called for paths that Express can't decode.
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    dispatch.fail(
      error instanceof URIError ? invalidFormat('path is not valid percent-encoding') : error,
      corsRule(request.path),
      request,
      response,
    )
  })
  return app
}

function groupByPath(routes: readonly Route[]): Map<string, Map<string, Route>> {
  const paths = new Map<string, Map<string, Route>>()
  for (const route of routes) {
    const byMethod = paths.get(route.path) ?? new Map<string, Route>()
    if (byMethod.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`)
    byMethod.set(route.method, route)
    paths.set(route.path, byMethod)
  }
  return paths
}

function allowedMethods(byMethod: ReadonlyMap<string, Route>): string[] {
  return byMethod.has('GET') ? [...byMethod.keys(), 'HEAD'] : [...byMethod.keys()]
}
