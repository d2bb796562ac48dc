"""What one connection is made of: dialling, bytes that wait to be sent, requests that wait for answers, errors."""
